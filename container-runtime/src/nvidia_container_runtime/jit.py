"""jit-cdi mode: the CDI spec of this driver, made when a container is created, out of what NVML
says.
"""

from . import driver_files, edits, files, gated, host, paths
from .errors import RuntimeFault
from .nvml import Driver, DriverFault, Gpu, Mig
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .journal import Journal

NO_DEVICE: "dict[str, Any]" = {"env": ["NVCT_EMPTY_DEVICE="]}
MIG_MINORS = "/proc/driver/nvidia-caps/mig-minors"


def container_edits(
    ids: "list[str]", settings: Settings, journal: "Journal", ctk: str
) -> "dict[str, Any]":
    """The edits for these devices: all, none, indices, GPU:MIG indices, UUIDs."""
    try:
        with Driver(host.nvml_library(settings.driver_root)) as driver:
            if ids == ["none"]:
                parts = [NO_DEVICE]
            else:
                gpus = driver.gpus()
                parts = [
                    device_edits(chosen, settings, ctk)
                    for one in ids
                    for chosen in select(one, gpus)
                ]
            parts.append(
                driver_files.common_edits(settings.driver_root, driver.version, ctk, journal)
            )
    except DriverFault as fault:
        raise RuntimeFault(
            'failed to generate CDI spec for mode "auto": '
            "failed to construct device spec generators:"
            f" failed to initialize NVML: {fault}"
        ) from None
    found = edits.join_edits(parts)
    found["deviceNodes"] = list({node["path"]: node for node in found["deviceNodes"]}.values())
    if not settings.feature("no-additional-gids-for-device-nodes"):
        found["additionalGids"] = files.groups(found["deviceNodes"])
    return found


def select(wanted: str, gpus: "list[Gpu]") -> "list[Gpu | Mig]":
    """Find the device of an identifier: the whole of a GPU, or one of its slices."""
    if wanted == "all":
        slices: list[Gpu | Mig] = []
        for gpu in gpus:
            slices += gpu.migs() if gpu.mig_enabled else [gpu]
        return slices
    found: list[Gpu | Mig] = [gpu for gpu in gpus if wanted in (str(gpu.index), gpu.uuid)]
    if not found:
        found += [
            mig
            for gpu in gpus
            for mig in gpu.migs()
            if wanted in (f"{gpu.index}:{mig.index}", mig.uuid)
        ]
    if not found:
        raise RuntimeFault(
            "failed to inject CDI devices: unresolvable CDI devices "
            f"runtime.nvidia.com/gpu={wanted}"
        )
    return found


def device_edits(chosen: "Gpu | Mig", settings: Settings, ctk: str) -> "dict[str, Any]":
    root = settings.driver_root
    gpu = chosen if isinstance(chosen, Gpu) else chosen.gpu
    wanted = [f"/dev/nvidia{gpu.minor}"]
    if isinstance(chosen, Mig):
        wanted += mig_nodes(chosen)
    nodes: list[dict[str, Any]] = []
    for path in wanted:
        node = files.device_node(root, path)
        if not node:
            raise RuntimeFault(
                "failed to inject CDI devices: no device node "
                f"{files.below(root, path)}; is the driver loaded?"
            )
        nodes.append(node)
    display, links = driver_files.display_nodes(gpu.pci_bus, root)
    return {"deviceNodes": nodes + display, "hooks": files.link_hooks(ctk, links)}


def mig_nodes(mig: Mig) -> "list[str]":
    """The two capability nodes that open a slice: of its GPU instance and of its
    compute instance.
    """
    base = f"gpu{mig.gpu.minor}/gi{mig.gpu_instance}"
    minors = mig_minors()
    found: list[str] = []
    for name in (f"{base}/access", f"{base}/ci{mig.compute_instance}/access"):
        if name not in minors:
            raise RuntimeFault(f"no minor number for MIG device {name} in {MIG_MINORS}")
        found.append(f"/dev/nvidia-caps/nvidia-cap{minors[name]}")
    return found


def mig_minors() -> "dict[str, str]":
    try:
        text = paths.read_bytes(MIG_MINORS).decode(errors="replace")
    except OSError:
        return {}
    return dict(line.split() for line in text.splitlines() if len(line.split()) == 2)


def extra_edits(
    extras: "list[str]", settings: Settings, journal: "Journal"
) -> "list[dict[str, Any]]":
    """Gated features, and IMEX channels as imex/N."""
    return [
        imex_edits(extra[5:], settings)
        if extra.startswith("imex/")
        else gated.feature_edits(extra, settings, journal)
        for extra in extras
    ]


def imex_edits(channel: str, settings: Settings) -> "dict[str, Any]":
    if not channel.isdigit():
        raise RuntimeFault(f"invalid IMEX channel: {channel}")
    path = f"/dev/nvidia-caps-imex-channels/channel{channel}"
    node = files.device_node(settings.driver_root, path)
    if not node:
        raise RuntimeFault(f"failed to inject CDI devices: no IMEX channel {path}")
    return {"deviceNodes": [node]}
