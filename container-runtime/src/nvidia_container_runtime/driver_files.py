"""The files of a driver on disk: its libraries, sockets, firmware, programs and common device
nodes.
"""

from . import edits, files, paths
from .journal import Journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LIBRARY_LIMIT = 1 << 30
COMMON_NODES = ("/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl")
SOCKETS = (
    "/run/nvidia-persistenced/socket",
    "/run/nvidia-fabricmanager/socket",
    "/var/run/nvidia-persistenced/socket",
    "/tmp/nvidia-mps",
)
PROGRAMS = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
)
PROGRAM_FOLDERS = ("/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin")
SOCKET_OPTIONS = ("nosuid", "nodev", "rbind", "rprivate", "noexec")
# Vulkan's files are all made visible in /etc, the rest where they are.
GRAPHICS_FILES = (
    "glvnd/egl_vendor.d/10_nvidia.json",
    "vulkan/icd.d/nvidia_icd.json",
    "vulkan/icd.d/nvidia_layers.json",
    "vulkan/implicit_layer.d/nvidia_layers.json",
    "vulkan/icd.d/nvidia_icd.*.json",
    "egl/egl_external_platform.d/15_nvidia_gbm.json",
    "egl/egl_external_platform.d/09_nvidia_wayland2.json",
    "egl/egl_external_platform.d/10_nvidia_wayland.json",
    "egl/egl_external_platform.d/20_nvidia_xcb.json",
    "egl/egl_external_platform.d/20_nvidia_xlib.json",
    "nvidia/nvoptix.bin",
    "X11/xorg.conf.d/10-nvidia.conf",
    "X11/xorg.conf.d/nvidia-drm-outputclass.conf",
)
# The platform libraries of EGL have versions of their own.
GRAPHICS_LIBRARIES = (
    "libnvidia-egl-gbm.so.*",
    "libnvidia-egl-wayland.so.*",
    "libnvidia-egl-wayland2.so.*",
    "libnvidia-egl-xcb.so.*",
    "libnvidia-egl-xlib.so.*",
    "libnvidia-vulkan-producer.so.{driver}",
    "nvidia/xorg/libglxserver_nvidia.so.{driver}",
    "xorg/modules/extensions/libglxserver_nvidia.so.{driver}",
    "nvidia/xorg/nvidia_drv.so",
    "xorg/modules/drivers/nvidia_drv.so",
)
# A driver's library -> a link beside it by which programs find it, and where that points ("": at
# the library).
GRAPHICS_LINKS = (
    ("libnvidia-allocator.so.{driver}", "gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1"),
    ("libnvidia-vulkan-producer.so.{driver}", "libnvidia-vulkan-producer.so", ""),
    ("nvidia/xorg/libglxserver_nvidia.so.{driver}", "libglxserver_nvidia.so", ""),
)


def version(root: str) -> str:
    """The driver's version by the name of its libraries; "" when none is found."""
    for folder in files.LIBRARY_FOLDERS:
        for name in ("libcuda.so.*.*", "libnvidia-ml.so.*.*"):
            for place in files.resolved(root, f"{folder}/{name}"):
                return paths.base(place).partition(".so.")[2]
    return ""


def libraries(root: str, driver: str) -> "list[str]":
    found: list[str] = []
    for folder in files.LIBRARY_FOLDERS:
        for pattern in (
            f"{folder}/*.so.{driver}",
            f"{folder}/vdpau/*.so.{driver}",
            f"{folder}/gbm/nvidia-drm_gbm.so",
        ):
            found += files.resolved(root, pattern)
    return list(dict.fromkeys(found))


def common_edits(root: str, driver: str, ctk: str, journal: "Journal") -> "dict[str, Any]":
    """The edits that every container with a GPU gets beside the GPU's own node."""
    library_mounts = [
        edits.mount(path, files.inside(root, path)) for path in libraries(root, driver)
    ]
    mounts = (
        library_mounts
        + programs(root)
        + firmware(root, driver)
        + sockets(root)
        + graphics_mounts(root, driver)
    )
    folders = files.library_folders(library_mounts)
    cuda = [
        mount["containerPath"]
        for mount in library_mounts
        if paths.base(mount["containerPath"]).startswith("libcuda.so.")
    ]
    found: dict[str, Any] = {
        "env": ([f"NVIDIA_CTK_LIBCUDA_DIR={paths.parent(cuda[0])}"] if cuda else [])
        + ["NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": [
            node for path in COMMON_NODES for node in [files.device_node(root, path)] if node
        ],
        "mounts": sorted(
            {mount["containerPath"]: mount for mount in mounts}.values(),
            key=lambda mount: mount["containerPath"],
        ),
    }
    links = sorted(library_name_links(library_mounts)) + files.library_links(
        [mount["containerPath"] for mount in library_mounts]
    )
    found["hooks"] = [
        *files.link_hooks(ctk, graphics_links(root, driver)),
        *files.link_hooks(ctk, links),
        edits.ctk_hook(ctk, "enable-cuda-compat", f"--host-driver-version={driver}"),
        *files.ldcache_hooks(ctk, folders),
        edits.ctk_hook(ctk, "disable-device-node-modification"),
        edits.ctk_hook(ctk, "update-application-profile"),
    ]
    if not library_mounts:
        journal.warning(f"No libraries of driver {driver} found below {root}")
    return found


def library_name_links(mounts: "Sequence[dict[str, Any]]") -> "set[str]":
    """The name that the dynamic linker looks a library up by, as a link to the file with the
    version in its name.
    """
    found: set[str] = set()
    for mount in mounts:
        name = paths.base(mount["containerPath"])
        soname = shared_object_name(mount["hostPath"])
        if soname and soname != name:
            found.add(f"{name}::{paths.parent(mount['containerPath'])}/{soname}")
    return found


def shared_object_name(path: str) -> str:
    from . import elf

    try:
        return elf.soname(paths.read_bytes(path, LIBRARY_LIMIT))
    except (OSError, elf.NotElf):
        return ""


def programs(root: str) -> "list[dict[str, Any]]":
    found: dict[str, dict[str, Any]] = {}
    for name in PROGRAMS:
        for folder in PROGRAM_FOLDERS:
            place = paths.real(files.below(root, f"{folder}/{name}"), root)
            if name not in found and paths.is_executable(place):
                found[name] = edits.mount(place, f"{folder}/{name}")
    return list(found.values())


def firmware(root: str, driver: str) -> "list[dict[str, Any]]":
    found = [
        place
        for folder in ("/lib/firmware", "/usr/lib/firmware")
        for place in files.resolved(root, f"{folder}/nvidia/{driver}/gsp*.bin")
    ]
    return [edits.mount(path, files.inside(root, path)) for path in dict.fromkeys(found)]


def sockets(root: str) -> "list[dict[str, Any]]":
    places = {paths.real(files.below(root, path), root): path for path in SOCKETS}
    return [
        edits.mount(host, path, SOCKET_OPTIONS)
        for host, path in places.items()
        if paths.exists(host)
    ]


def graphics_mounts(root: str, driver: str) -> "list[dict[str, Any]]":
    """Vendor files of EGL, Vulkan and the X server; libraries with the driver's version, where it
    is known.
    """
    kept = [
        edits.mount(paths.real(path, root), seen_at(files.inside(root, path)))
        for name in GRAPHICS_FILES
        for path in vendor_files(root, name)
    ]
    kept += [
        edits.mount(path, files.inside(root, path)) for path in graphics_libraries(root, driver)
    ]
    return list({mount["containerPath"]: mount for mount in kept}.values())


def vendor_files(root: str, name: str) -> "list[str]":
    """The files of that name in the first folder that has any: the administrator's come before the
    distribution's.
    """
    for folder in files_folders(name):
        found = files.matches(files.below(root, f"{folder}/{name}"), root)
        found = [path for path in found if paths.exists(paths.real(path, root))]
        if found:
            return found
    return []


def seen_at(path: str) -> str:
    """The path of a vendor file in the container: the Vulkan loader's own folder is /etc/vulkan."""
    folder, vulkan, name = path.partition("/vulkan/")
    return "/etc" + vulkan + name if folder and vulkan else path


def graphics_libraries(root: str, driver: str) -> "list[str]":
    if not driver:
        return []
    return [
        path
        for folder in files.LIBRARY_FOLDERS
        for name in GRAPHICS_LIBRARIES
        for path in files.resolved(root, f"{folder}/{name.format(driver=driver)}")
    ]


def graphics_links(root: str, driver: str) -> "list[str]":
    """TARGET::LINK for what programs look up by a name of its own, as GBM does with the driver's
    allocator.
    """
    links: list[str] = []
    for folder in files.LIBRARY_FOLDERS if driver else ():
        for library, link, target in GRAPHICS_LINKS:
            for path in files.resolved(root, f"{folder}/{library.format(driver=driver)}"):
                place = paths.join(paths.parent(files.inside(root, path)), link)
                links.append(f"{target or paths.base(path)}::{place}")
    return list(dict.fromkeys(links))


def files_folders(name: str) -> "tuple[str, ...]":
    return (
        ("/etc", "/usr/share")
        if name.startswith("X11/")
        else ("/etc", "/usr/share", "/usr/local/share")
    )


def display_nodes(bus: str, root: str) -> "tuple[list[dict[str, Any]], list[str]]":
    """The DRM nodes of the GPU at that PCI address, and the links that name them by
    that address.
    """
    nodes: list[dict[str, Any]] = []
    links: list[str] = []
    for name in paths.names(f"/sys/bus/pci/devices/{bus}/drm"):
        path = f"/dev/dri/{name}"
        node = files.device_node(root, path)
        if not node:
            continue
        nodes.append(node)
        kind = "card" if name.startswith("card") else "render"
        links.append(f"../{name}::/dev/dri/by-path/pci-{bus}-{kind}")
    return nodes, links
