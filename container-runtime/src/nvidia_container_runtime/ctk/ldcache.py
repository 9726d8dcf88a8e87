"""The dynamic linker's cache of a container, made by the host's ldconfig inside the container's root."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ..errors import RuntimeFault
from .hook_root import Root

CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE, MS_RDONLY, MS_REMOUNT, MNT_DETACH = 4096, 16384, 1 << 18, 1, 32, 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "ppc64le": 203}


def update(root: str, folders: list[str], ldconfig: str, name: str = "00-nvcr") -> None:
    """In a child, because it moves into the container's root and must not come back with it.

    ldconfig is the host's (a container's could be anything) but sees nothing of the host: it is opened before the move.
    """
    child = os.fork()
    if child == 0:
        try:
            program = os.open(ldconfig.removeprefix("@"), os.O_RDONLY | os.O_CLOEXEC)
            enter(root)
            configure(folders, name)
            os.execve(program, ["ldconfig", "-C", "/etc/ld.so.cache", "-f", "/etc/ld.so.conf"], {})
        except (OSError, RuntimeFault) as error:
            print(f"update-ldcache: {error}", file=sys.stderr)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise RuntimeFault("failed to update the container's ldcache")


def configure(folders: list[str], name: str) -> None:
    """Note the folders where the container's own ldconfig will find them too."""
    if not folders:
        return
    drop_ins = Path("/etc/ld.so.conf.d")
    drop_ins.mkdir(parents=True, exist_ok=True)
    target = drop_ins / f"{name}-{os.getpid()}.conf"
    target.write_text("".join(f"{folder}\n" for folder in dict.fromkeys(folders)))
    target.chmod(0o644)
    main = Path("/etc/ld.so.conf")
    if not main.exists():
        main.write_text("include /etc/ld.so.conf.d/*.conf\n")


def enter(root: str) -> None:
    """Make the container's root this process's own, in a mount namespace that nobody else sees."""
    check("unshare", libc().unshare(CLONE_NEWNS))
    mount("none", "/", MS_REC | MS_PRIVATE)
    mount(root, root, MS_BIND | MS_REC)
    os.chdir(root)
    number = PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        os.chroot(".")
    else:
        check("pivot_root", libc().syscall(ctypes.c_long(number), b".", b"."))
        check("umount2", libc().umount2(b".", MNT_DETACH))
    os.chdir("/")


def mount_over(root: str, path: str, change: Callable[[str], str | None]) -> None:
    """Show the container another text in the place of a file of /proc, where `change` has one."""
    try:
        text = change(Path(path).read_text())
    except OSError:
        return
    if text is None:
        return
    folder = tempfile.mkdtemp(prefix="nvidia-ctk-")
    mount(
        "tmpfs", folder, MS_NOSUID | MS_NODEV | MS_NOEXEC, "tmpfs"
    )  # only a file of some mount can be bound elsewhere
    try:
        content = Path(folder, "content")
        content.write_text(text)
        content.chmod(0o444)
        mount(
            "none", folder, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
        )  # what is bound is too
        with Root(root).folder(path) as target:
            mount(str(content), f"/proc/self/fd/{target}", MS_BIND)
    finally:
        check("umount2", libc().umount2(folder.encode(), MNT_DETACH))
        os.rmdir(folder)


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, flags: int, kind: str = "") -> None:
    result = libc().mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), None)
    check(f"mount {target}", result)


def check(what: str, result: int) -> None:
    if result < 0:
        raise RuntimeFault(f"{what}: {os.strerror(ctypes.get_errno())}")


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def is_newer(version: str, host: str) -> bool:
    """Compatibility libraries are made for older drivers: they count when their major version is a later one."""
    return version_key(version)[:1] > version_key(host)[:1]
