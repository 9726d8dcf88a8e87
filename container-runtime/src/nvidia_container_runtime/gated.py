"""Parts of the driver stack that a container enables by a variable of its own: storage, RDMA,
NVSwitch, GDRCopy.
"""

from . import edits, files, paths
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .journal import Journal

NODES = {
    "gds": ("/dev/nvidia-fs*",),
    "mofed": ("/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"),
    "nvswitch": ("/dev/nvidia-nvswitchctl", "/dev/nvidia-nvswitch*"),
    "gdrcopy": ("/dev/gdrdrv",),
}
MOUNTS = {"gds": ("/run/udev", "/etc/cufile.json")}


def container_edits(
    features: "list[str]", settings: Settings, journal: "Journal"
) -> "dict[str, Any]":
    """NVIDIA_VISIBLE_DEVICES is left alone: in legacy mode the hook still has to read it."""
    return edits.join_edits([feature_edits(feature, settings, journal) for feature in features])


def feature_edits(feature: str, settings: Settings, journal: "Journal") -> "dict[str, Any]":
    root = settings.driver_root
    nodes: dict[str, dict[str, Any]] = {}
    for pattern in NODES[feature]:
        for host in files.matches(files.below(root, pattern), root):
            node = files.device_node(root, files.inside(root, host))
            if node:
                nodes[node["path"]] = node
    if not nodes:
        journal.warning(f"No device nodes of {feature} found")
    mounts = [
        edits.mount(path, wanted)
        for wanted in MOUNTS.get(feature, ())
        for path in existing(root, wanted)
    ]
    return {"deviceNodes": list(nodes.values()), "mounts": mounts}


def existing(root: str, path: str) -> "list[str]":
    place = files.below(root, path)
    if root not in ("", "/"):
        place = paths.real(place, root)
    return [place] if paths.exists(place) else []
