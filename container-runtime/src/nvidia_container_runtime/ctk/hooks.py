"""nvidia-ctk hook NAME: what CDI specs have done inside a container's root before its process
starts.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys

from .. import paths
from ..errors import RuntimeFault
from . import ldcache, mounts
from .hook_root import Root, container_root


class Flags:
    """`--name value` and `--name=value`, repeated as often as wanted."""

    def __init__(self, words: list[str]) -> None:
        self.values: dict[str, list[str]] = {}
        rest = iter(words)
        for word in rest:
            name, equals, value = word.lstrip("-").partition("=")
            if word.startswith("-") and name:
                self.values.setdefault(name, []).append(value if equals else next(rest, ""))

    def all(self, name: str) -> list[str]:
        return self.values.get(name, [])

    def last(self, name: str, default: str = "") -> str:
        return self.values.get(name, [default])[-1]


def run(words: list[str]) -> int:
    name = words[0] if words else ""
    action = ACTIONS.get(name)
    if action is None:
        print(f"Unknown hook {name!r}; nothing to do", file=sys.stderr)
        return 0
    flags = Flags(words[1:])
    action(container_root(flags.last("container-spec")), flags)
    return 0


def create_symlinks(root: str, flags: Flags) -> None:
    for wanted in flags.all("link"):
        target, separator, link = wanted.partition("::")
        if not separator or not target or not link:
            raise RuntimeFault(f"invalid link {wanted!r}: it is TARGET::LINK")
        create_symlink(Root(root), target, link)


def create_symlink(root: Root, target: str, link: str) -> None:
    """In one step, so that a program that looks meanwhile finds the old link or the new one."""
    name = paths.base(link)
    if name in ("", ".", ".."):
        raise RuntimeFault(f"invalid link name {link!r}")
    with root.folder(paths.parent(link), create=True) as folder:
        with contextlib.suppress(OSError):
            if os.readlink(name, dir_fd=folder) == target:
                return
        draft = f".{name}.{os.urandom(4).hex()}"
        os.symlink(target, draft, dir_fd=folder)
        try:
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            os.unlink(draft, dir_fd=folder)
            raise RuntimeFault(f"failed to create symlink {link}: {error.strerror}") from None


def chmod(root: str, flags: Flags) -> None:
    mode = flags.last("mode")
    if not mode or any(digit not in "01234567" for digit in mode):
        raise RuntimeFault(f"invalid mode {mode!r}: it is octal, as 755")
    for path in (path for given in flags.all("path") for path in given.split(",") if path):
        try:
            with Root(root).folder(path) as entry:
                os.chmod(f"/proc/self/fd/{entry}", int(mode, 8))
        except FileNotFoundError:
            continue  # what the driver did not bring needs no mode


def update_ldcache(root: str, flags: Flags) -> None:
    folders = [folder for folder in flags.all("folder") if folder]
    ldcache.update(root, folders, flags.last("ldconfig-path"))


def enable_cuda_compat(root: str, flags: Flags) -> None:
    """Have the container's own CUDA libraries used where they are newer than the driver's."""
    folder = flags.last("cuda-compat-container-root", "/usr/local/cuda/compat")
    host = flags.last("host-driver-version")
    if not host:
        return
    try:
        names = Root(root).names(folder)
    except (OSError, RuntimeFault):
        return
    versions = [
        name[len("libcuda.so.") :]
        for name in names
        if name.startswith("libcuda.so.") and name.count(".") > 2
    ]
    if versions and ldcache.is_newer(max(versions, key=ldcache.version_key), host):
        ldcache.update(root, [folder], flags.last("ldconfig-path"), "00-compat")


# It takes what the other hooks take.
def disable_device_node_modification(root: str, flags: Flags) -> None:  # noqa: ARG001
    """The driver's own tools would make device nodes in a container that were not given to it."""
    mounts.mount_over(root, "/proc/driver/nvidia/params", without_modification)


def without_modification(text: str) -> str | None:
    if "ModifyDeviceFiles: 1" not in text:
        return None
    return text.replace("ModifyDeviceFiles: 1", "ModifyDeviceFiles: 0")


PROFILES = "/etc/nvidia/nvidia-application-profiles-rc.d"
MASK_BITS = 64


# It takes what the other hooks take.
def update_application_profile(root: str, flags: Flags) -> None:  # noqa: ARG001
    """EGL and Vulkan find GPUs without their nodes: the driver's settings tell them which are the
    container's.
    """
    with Root(root).folder("/dev") as folder:
        mask = sum(1 << minor for minor in gpu_minors(folder))
    if not mask:
        return
    profile = (
        f'{{"profiles":[{{"name":"_container_","settings":["EGLVisibleDGPUDevices",0x{mask:x}]}}],'
        '"rules":[{"pattern":[],"profile":"_container_"}]}\n'
    )
    Root(root).write(PROFILES, "10-container.conf", profile.encode())


def gpu_minors(folder: int) -> set[int]:
    """The minor numbers of the /dev/nvidiaN that are device nodes."""
    minors: set[int] = set()
    for name in os.listdir(f"/proc/self/fd/{folder}"):
        if name.startswith("nvidia") and name[len("nvidia") :].isdecimal():
            seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISCHR(seen.st_mode) and os.minor(seen.st_rdev) < MASK_BITS:
                minors.add(os.minor(seen.st_rdev))
    return minors


ACTIONS = {
    "create-symlinks": create_symlinks,
    "chmod": chmod,
    "update-ldcache": update_ldcache,
    "enable-cuda-compat": enable_cuda_compat,
    "disable-device-node-modification": disable_device_node_modification,
    "update-application-profile": update_application_profile,
}
