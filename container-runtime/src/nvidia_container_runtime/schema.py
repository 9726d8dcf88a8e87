"""Every key of config.toml, its default and its type, in one table; and reading a file by it.

Not here: which file that is, and what is remembered of it (settings.py). A creation that remembers
does not load this.
"""

from . import paths, toml
from .errors import RuntimeFault
from .sections import CLI, RUNTIME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CAPABILITIES = ("compat32", "compute", "display", "graphics", "ngx", "utility", "video")
FEATURES = (
    "allow-cuda-compat-libs-from-container",
    "allow-ldconfig-from-container",
    "allow-unknown-oci-spec-fields",
    "disable-cuda-compat-lib-hook",
    "disable-imex-channel-creation",
    "ignore-imex-channel-requests",
    "no-additional-gids-for-device-nodes",
)

# A default of None: the key is known, has the type of the second table, and is not there unless the
# file sets it.
DEFAULTS: "dict[str, Any]" = {
    "accept-nvidia-visible-devices-as-volume-mounts": False,
    "accept-nvidia-visible-devices-envvar-when-unprivileged": True,
    "disable-require": False,
    "supported-driver-capabilities": ",".join(CAPABILITIES),
    "swarm-resource": "",
    CLI + "debug": "",
    CLI + "environment": [],
    CLI + "ldcache": "",
    CLI + "ldconfig": "@/sbin/ldconfig",
    CLI + "load-kmods": True,
    CLI + "no-cgroups": False,
    CLI + "no-pivot": False,
    CLI + "path": "",
    CLI + "root": "",
    CLI + "user": None,
    RUNTIME + "debug": "/dev/null",
    RUNTIME + "log-level": "info",
    RUNTIME + "mode": "auto",
    RUNTIME + "runtimes": ["docker-runc", "runc", "crun"],
    RUNTIME + "modes.cdi.annotation-prefixes": ["cdi.k8s.io/"],
    RUNTIME + "modes.cdi.default-kind": "nvidia.com/gpu",
    RUNTIME + "modes.cdi.spec-dirs": ["/etc/cdi", "/var/run/cdi"],
    RUNTIME + "modes.csv.compat-container-root": "",
    RUNTIME
    + "modes.csv.mount-spec-path": "/etc/nvidia-container-runtime/host-files-for-container.d",
    RUNTIME + "modes.jit-cdi.nvcdi-disable-hooks": None,
    RUNTIME + "modes.jit-cdi.nvcdi-feature-flags": None,
    RUNTIME + "modes.legacy.cuda-compat-mode": "ldconfig",
    "nvidia-container-runtime-hook.path": "nvidia-container-runtime-hook",
    "nvidia-container-runtime-hook.skip-mode-detection": False,
    "nvidia-ctk.path": "nvidia-ctk",
    **{"features." + name: None for name in FEATURES},
}
OPTIONAL = {
    CLI + "user": str,
    **{key: list for key in DEFAULTS if key.startswith(RUNTIME + "modes.jit-cdi.")},
    **{"features." + name: bool for name in FEATURES},
}
TYPE_NAMES = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]string",
    dict: "table",
}


def values_of(text: str) -> "dict[str, Any]":
    """All values: the defaults, with the text's over them, key by key."""
    try:
        document = toml.parse(text)
    except toml.TomlFault as error:
        raise RuntimeFault(f"failed to load specified config file: {error}") from None
    return with_defaults(document)


def with_defaults(document: "dict[str, Any]") -> "dict[str, Any]":
    values = dict(DEFAULTS)
    for key in values:
        found = look_up(document, key)
        if found is not None:
            values[key] = check_value(key, found)
    return values


def look_up(document: "dict[str, Any]", key: str) -> "Any":
    table: Any = document
    for part in key.split("."):
        if not isinstance(table, dict):
            raise RuntimeFault(
                f"failed to unmarshal config: {key}: Can't convert {type_name(table)} to a table"
            )
        table = table.get(part)
        if table is None:
            return None
    return table  # pyright: ignore[reportUnknownVariableType]


def check_value(key: str, found: "Any") -> "Any":
    wanted = OPTIONAL.get(key) or type(DEFAULTS[key])
    right = type(found) is wanted
    if right and wanted is list:
        right = all(type(item) is str for item in found)
    if not right:
        raise RuntimeFault(
            f"failed to unmarshal config: {key}: Can't convert {found!r}({type_name(found)}) to "
            f"{TYPE_NAMES[wanted]}"
        )
    return found


def type_name(value: "Any") -> str:
    return TYPE_NAMES.get(type(value), type(value).__name__)


def default_user() -> str:
    """The user that nvidia-container-cli works as: SUSE keeps its device nodes to
    the group video.
    """
    try:
        text = paths.read_bytes("/etc/os-release").decode(errors="replace")
    except OSError:
        return ""
    likes = [
        line.partition("=")[2].strip("\"'").split()
        for line in text.splitlines()
        if line.startswith("ID_LIKE=")
    ]
    return (
        "root:video"
        if any(name in ("suse", "opensuse") for names in likes for name in names)
        else ""
    )
