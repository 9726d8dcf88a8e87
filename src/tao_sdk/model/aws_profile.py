"""The AWS profile: what `aws configure` left in ~/.aws, as a job's environment would have it.

AWS_PROFILE names the profile, AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE other files, as for
the AWS command. Read here and nowhere in a job. Not here: profiles that log in (sso), assume a role
or start a program: they hold no keys.
"""

from __future__ import annotations

import configparser
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
    """The profile's keys, region and endpoint; {} where there is none and none was named."""
    named = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE")
    name = named or "default"
    files = {
        Path(
            environ.get("AWS_CONFIG_FILE") or home / ".aws" / "config"
        ).expanduser(): f"profile {name}",
        Path(
            environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials"
        ).expanduser(): name,
    }
    found = [
        section
        for path, title in files.items()
        for section in read_sections(path, {title, name} - {"profile default"})
    ]
    if named and not found:
        places = " and ".join(map(str, files))
        raise UsageError(
            f"no such AWS profile: {named}",
            f"It was looked for in {places}.",
            "Correct AWS_PROFILE, or unset it.",
        )
    said = {
        word: section[word].strip()
        for section in found
        for word in WORDS
        if section.get(word, "").strip()
    }
    if not (said.get("aws_access_key_id") and said.get("aws_secret_access_key")):
        said = {word: value for word, value in said.items() if not word.startswith("aws_")}
    return {WORDS[word]: value for word, value in said.items()}


def read_sections(path: Path, titles: set[str]) -> list[Mapping[str, str]]:
    """The profile in one file; a value is never shown by an error."""
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
