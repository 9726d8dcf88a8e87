"""The AWS profile: the settings that `aws configure` left in ~/.aws, under the names of a job's
environment.

AWS_PROFILE names the profile, AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE other files, as for
the AWS command. Only this machine reads the files, never a job. Not here: profiles that log in
(sso), assume a role or start a program: they hold no keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tao_sdk.model.errors import UsageError

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
WORDS = {  # of the files -> of the environment
    "aws_access_key_id": KEYS[0],
    "aws_secret_access_key": KEYS[1],
    "aws_session_token": KEYS[2],
    "region": "AWS_REGION",
    "endpoint_url": "AWS_ENDPOINT_URL",
}


def read_aws_profile(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """The profile's keys, region and endpoint; {} if there is none. Raises UsageError if the
    environment names one that is not there.
    """
    named = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE")
    name = named or "default"
    config = chosen_file(environ.get("AWS_CONFIG_FILE"), home / ".aws" / "config")
    credentials = chosen_file(
        environ.get("AWS_SHARED_CREDENTIALS_FILE"), home / ".aws" / "credentials"
    )
    in_config = {"default"} if name == "default" else {name, f"profile {name}"}
    sections = [*read_sections(config, in_config), *read_sections(credentials, {name})]
    if named and not sections:
        raise UsageError(
            f"no such AWS profile: {named}",
            f"It was looked for in {config} and {credentials}.",
            "Correct AWS_PROFILE, or unset it.",
        )
    values: dict[str, str] = {}
    for section in sections:
        values.update(given_values(section))
    if has_both_keys(values):
        return values
    return without_keys(values)


def chosen_file(named: str | None, usual: Path) -> Path:
    return Path(named or usual).expanduser()


def given_values(section: Mapping[str, str]) -> dict[str, str]:
    """The non-empty values of a section, under the names of the environment."""
    given = {variable: section.get(word, "").strip() for word, variable in WORDS.items()}
    return {variable: value for variable, value in given.items() if value}


def has_both_keys(values: Mapping[str, str]) -> bool:
    return KEYS[0] in values and KEYS[1] in values


def without_keys(values: Mapping[str, str]) -> dict[str, str]:
    return {variable: value for variable, value in values.items() if variable not in KEYS}


def read_sections(path: Path, titles: set[str]) -> list[Mapping[str, str]]:
    """Read the profile's sections in one file. An error never shows a value."""
    import configparser  # most commands read no profile

    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise UsageError(
            f"{path} cannot be read.", f"{type(error).__name__}.", "Mend it, or name another file."
        ) from None
    return [parser[title] for title in parser.sections() if title in titles]
