"""The mode in which a container is created."""

from .errors import RuntimeFault
from .journal import quoted
from .sections import CLI, RUNTIME
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .journal import Journal

MODES = ("legacy", "csv", "cdi", "jit-cdi")


def resolve(settings: Settings, requested: "list[str]", journal: "Journal", path: str) -> str:
    """The mode to create in: the configured one, or what `auto` means on this host for these
    devices.
    """
    mode = settings[RUNTIME + "mode"]
    if mode == "auto":
        mode = detect_mode(settings, requested, path)
        journal.info(f"Auto-detected mode as '{mode}'")
        return mode
    if not mode:
        raise RuntimeFault("a mode must be specified")
    if mode not in MODES:
        raise RuntimeFault(f"invalid mode {quoted(mode)}")
    journal.info(f"Using requested mode '{mode}'")
    return mode


def detect_mode(settings: Settings, requested: "list[str]", path: str) -> str:
    """cdi where CDI names are asked for, csv on a Tegra, legacy where its tool is installed, else
    jit-cdi.
    """
    if hook_mode(requested) != "legacy":
        return hook_mode(requested)
    from . import host

    if host.find_container_cli(settings[CLI + "path"], settings[CLI + "root"], path):
        return "legacy"
    return "jit-cdi"


def hook_mode(requested: "list[str]") -> str:
    """The meaning of `auto` for the hook, which exists for the sake of legacy mode."""
    from . import host, names

    if requested and all(names.is_qualified(name) for name in requested):
        return "cdi"
    return "csv" if host.is_csv_platform() else "legacy"
