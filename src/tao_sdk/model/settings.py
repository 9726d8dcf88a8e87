"""Settings: the only reader of the environment.

Order: explicit argument, environment variable, `~/.config/tao/.env` (0600, known names only), the
config profile (`~/.config/tao/config.yaml`, the profile named by TAO_PROFILE, else `default`).
Nothing is read from the current directory.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tao_sdk.model.credentials import KNOWN_NAMES
from tao_sdk.model.endpoint import NamedEndpoint, own_settings
from tao_sdk.model.errors import UsageError

if TYPE_CHECKING:
    from tao_sdk.model.config_file import Config


@dataclass(frozen=True)
class Settings:
    """The caller's environment and configuration. Made once per client; `environ` is a copy, so
    later changes do not count.
    """

    environ: Mapping[str, str]
    explicit: Mapping[str, str] = field(default_factory=dict[str, str])
    only_explicit: frozenset[str] = frozenset()  # names that are read from `explicit` alone

    @classmethod
    def load(cls, explicit: Mapping[str, str] | None = None) -> Settings:
        return cls(dict(os.environ), dict(explicit or {}))

    def get(self, name: str) -> str | None:
        """The value of `name`, or None; an empty variable counts as not set."""
        if name in self.only_explicit:
            return self.explicit.get(name) or None
        sources: tuple[Mapping[str, str], ...] = (
            self.explicit,
            self.environ,
            self.env_file,
            self.profile,
        )
        return next((source[name] for source in sources if source.get(name)), None)

    def at_place(self, platform: str, settings: Mapping[str, str]) -> Settings:
        """These settings for one place of a platform. A setting that is true of one place only
        comes from `settings` alone.
        """
        own = own_settings(platform)
        others = {name: value for name, value in self.explicit.items() if name not in own}
        return Settings(self.environ, {**others, **settings}, own)

    @property
    def home(self) -> Path:
        return self._absolute_folder("HOME") or own_home()

    @property
    def config_dir(self) -> Path:
        return (self._absolute_folder("XDG_CONFIG_HOME") or self.home / ".config") / "tao"

    @property
    def state_dir(self) -> Path:
        """$TAO_SDK_STATE_DIR (absolute), else $XDG_STATE_HOME/tao, else ~/.local/state/tao."""
        if named := self.environ.get("TAO_SDK_STATE_DIR"):
            if not Path(named).is_absolute():
                raise UsageError(
                    f"TAO_SDK_STATE_DIR is {named!r}, which is not absolute.",
                    "Jobs started from another directory could not be found again.",
                    "Set it to a path that starts with /.",
                )
            return Path(named)
        return (self._absolute_folder("XDG_STATE_HOME") or self.home / ".local" / "state") / "tao"

    @property
    def cache_dir(self) -> Path:
        """$XDG_CACHE_HOME/tao, else ~/.cache/tao: for files that can be made again at any time."""
        return (self._absolute_folder("XDG_CACHE_HOME") or self.home / ".cache") / "tao"

    def _absolute_folder(self, name: str) -> Path | None:
        """The folder that a variable names. A relative one is ignored, as the XDG specification
        says.
        """
        named = Path(self.environ.get(name, ""))
        if not named.is_absolute():
            return None
        return named

    @cached_property
    def env_file(self) -> Mapping[str, str]:
        """The known names in ~/.config/tao/.env. Raises UsageError if others can read it, because
        it holds credentials.
        """
        path = self.config_dir / ".env"
        with reading_config(path):
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                what, command = (
                    f"{path} can be read by other users.",
                    f"chmod 600 {shlex.quote(str(path))}",
                )
                raise UsageError(what, "It holds credentials.", "Run:", command)
            return parse_env_file(path.read_text(encoding="utf-8"), path)
        return {}

    @cached_property
    def aws(self) -> Mapping[str, str]:
        """AWS keys, region and endpoint, under AWS's names: from the environment, else from the
        files in ~/.aws.

        Empty when ACCESS_KEY is set: then our own names are used instead. When the environment has
        an AWS_ACCESS_KEY_ID, no key is taken from the files, so that parts of two different logins
        are never mixed.
        """
        from tao_sdk.model.aws_profile import KEYS, WORDS, read_aws_profile

        if self.get("ACCESS_KEY"):
            return {}
        own = {name: self.environ[name] for name in WORDS.values() if self.environ.get(name)}
        others = KEYS if KEYS[0] in own else ()
        return {
            name: value
            for name, value in read_aws_profile(self.environ, self.home).items()
            if name not in others
        } | own

    @cached_property
    def profile(self) -> Mapping[str, str]:
        """The chosen profile of config.yaml. Raises UsageError if TAO_PROFILE names one that is not
        there.
        """
        named, profiles = self.environ.get("TAO_PROFILE"), self._profiles
        if named and named not in profiles:
            known = f"{self.config_file} has: {', '.join(profiles) or 'none'}."
            advice = "Set TAO_PROFILE to one of them, or unset it."
            raise UsageError(f"no such profile: {named!r}", known, advice)
        return profiles.get(named or "default", {})

    @property
    def endpoints(self) -> Mapping[str, NamedEndpoint]:
        """The endpoints that config.yaml names. The registry decides if their platforms exist."""
        if self._config is None:
            return {}
        return self._config.endpoints

    @property
    def _profiles(self) -> Mapping[str, Mapping[str, str]]:
        if self._config is None:
            return {}
        return self._config.profiles

    @property
    def config_file(self) -> Path:
        return self.config_dir / "config.yaml"

    @cached_property
    def _config(self) -> Config | None:
        """The content of config.yaml; None if there is no such file."""
        with reading_config(self.config_file):
            if self.config_file.is_file():
                from tao_sdk.model.config_file import read_config

                return read_config(self.config_file)
        return None


def own_home() -> Path:
    """The user's home folder, as the system knows it, for a process without HOME. Raises UsageError
    if the user has none.
    """
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        what = f"HOME is not set, and user {os.getuid()} has no home folder."
        raise UsageError(
            what, "Jobs are remembered there.", "Set HOME to a folder of yours."
        ) from None


@contextmanager
def reading_config(path: Path) -> Generator[None]:
    """Run the block that reads a configuration file. A missing file is no error.

    Raises UsageError for a file that cannot be read.
    """
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", "", "Mend it, or remove it."
        ) from None
    except UnicodeDecodeError:
        raise UsageError(
            f"{path} is not UTF-8 text.", "", "Save it as UTF-8, or remove it."
        ) from None


def parse_env_file(text: str, path: Path) -> dict[str, str]:
    """Parse `NAME=value` and `export NAME="value"` lines, as a shell does. Comments and unknown
    names are left out.
    """
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, value = (
            part.strip() for part in line.strip().removeprefix("export ").partition("=")
        )
        if equals and name in KNOWN_NAMES:
            if value[:1] in ("'", '"') and value.count(value[0]) == 1:
                what = f"{path}:{number}: the quote before the value of {name} is not closed."
                raise UsageError(what, "", "Close it, or leave it out.")
            values[name] = unquote_value(value)
    return values


def unquote_value(value: str) -> str:
    """The value without the quotes around it and the comment after it."""
    quoted = re.fullmatch(r"""(?:"([^"]*)"|'([^']*)')(?:\s+#.*)?""", value)
    if quoted:
        return quoted[1] or quoted[2] or ""
    return re.sub(r"(?:^|\s+)#.*", "", value)
