"""The configuration in force: which file it is in, and its values. The table of keys is
schema.py's.
"""

from . import paths
from .errors import RuntimeFault, reason
from .sections import CLI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

SIZE_LIMIT = 1 << 20


class Settings:
    """The values of one configuration: defaults, with the file's values over them, key by key."""

    __slots__ = ("path", "text", "values")

    def __init__(self, values: "dict[str, Any]", path: str = "", text: "str | None" = None) -> None:
        self.values = values
        self.path = path
        self.text = text  # None: there is no such file

    def __getitem__(self, key: str) -> "Any":
        return self.values[key]

    def feature(self, name: str) -> bool:
        return bool(self.values["features." + name])

    @property
    def driver_root(self) -> str:
        return self.values[CLI + "root"] or "/"


def config_path(environment: "Mapping[str, str]") -> str:
    chosen = environment.get("NVIDIA_CTK_CONFIG_FILE_PATH", "")
    if chosen:
        return chosen
    return paths.join(
        environment.get("XDG_CONFIG_HOME") or "/etc", "nvidia-container-runtime/config.toml"
    )


def load(
    path: str, remembered: "Callable[[str, str | None], dict[str, Any] | None] | None" = None
) -> Settings:
    """The configuration of that file; the defaults when there is no such file.

    `remembered` gives the values of a path and text that were read before, so that they need not be
    read again.
    """
    try:
        text = paths.read_bytes(path, limit=SIZE_LIMIT).decode()
    except FileNotFoundError:
        text = None
    except UnicodeDecodeError as error:
        raise RuntimeFault(
            f"failed to load specified config file: {path} is not UTF-8 at byte {error.start}"
        ) from None
    except OSError as error:
        raise RuntimeFault(f"failed to load config file {path}: {reason(error)}") from None
    values = remembered(path, text) if remembered else None
    if values is None:
        from . import schema

        values = schema.values_of(text or "")
    return resolve_for_host(Settings(values, path, text))


def resolve_for_host(settings: Settings) -> Settings:
    """The values as they are on this host: the ldconfig that exists, marked as the host's."""
    values = settings.values
    values[CLI + "ldconfig"] = host_ldconfig(values[CLI + "ldconfig"])
    if not values[CLI + "ldconfig"].startswith("@") and not settings.feature(
        "allow-ldconfig-from-container"
    ):
        raise RuntimeFault(
            f"nvidia-container-cli.ldconfig value {values[CLI + 'ldconfig']!r} is not host-relative"
            " (does not start with a '@')"
        )
    return settings


def host_ldconfig(value: str) -> str:
    """Debian-likes wrap ldconfig in a script and keep the real one beside it: the one that exists
    is used.
    """
    if not value.startswith("@"):
        return value or "@/sbin/ldconfig"
    plain = value[1:]
    plain = plain[: -len(".real")] if plain.endswith(".real") else plain
    return f"@{plain}.real" if paths.exists(plain + ".real") else "@" + plain
