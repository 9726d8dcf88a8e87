"""Graphics in legacy mode: the chosen GPUs' display nodes and the files that nvidia-container-cli
does not bring.
"""

from . import driver_files, edits, files, paths
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .journal import Journal

INFORMATION = "/proc/driver/nvidia/gpus"


def container_edits(
    devices: "list[str]", settings: Settings, journal: "Journal", ctk: str
) -> "dict[str, Any]":
    root = settings.driver_root
    version = driver_files.version(root)
    if not version:
        journal.warning(
            "No driver version found; the graphics libraries that carry "
            "it in their name are left out"
        )
    nodes: list[dict[str, Any]] = []
    links: list[str] = []
    for bus in chosen_buses(devices):
        found, names = driver_files.display_nodes(bus, root)
        nodes += found
        links += names
    mounts = driver_files.graphics_mounts(root, version)
    links += driver_files.graphics_links(root, version)
    return edits.join_edits(
        [{"deviceNodes": nodes, "mounts": mounts, "hooks": files.link_hooks(ctk, links)}]
    )


def chosen_buses(devices: "list[str]") -> "list[str]":
    """The PCI addresses of the GPUs asked for, by the driver's own files, no library needed."""
    found: list[str] = []
    for bus in paths.names(INFORMATION):
        try:
            text = paths.read_bytes(f"{INFORMATION}/{bus}/information").decode(errors="replace")
        except OSError:
            continue
        fields = {
            name.strip(): value.strip()
            for name, _, value in (line.partition(":") for line in text.splitlines())
        }
        known = {"all", fields.get("Device Minor", ""), fields.get("GPU UUID", "")} - {""}
        if known & {device.partition(":")[0] for device in devices}:
            found.append(fields.get("Bus Location") or bus)
    return found
