"""Mounts of a hook's own: a view of the container's root that nobody else has, and texts in the
place of files.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .. import paths
from ..errors import RuntimeFault
from .hook_root import Root, read_regular

CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE, MS_RDONLY, MS_REMOUNT = 4096, 16384, 1 << 18, 1, 32
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "ppc64le": 203}
PR_CAPBSET_DROP = 24
KEPT_RIGHTS = (0, 1, 2, 3)  # CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
LAST_RIGHT = 63
TEXT_LIMIT = 1 << 16


def leave(root: str) -> None:
    """Mounts of this process are its own from here on, and no link in the container's root leads
    out of it.

    procfs has links to the root folders of processes, and the container's first one still has the
    host's.
    """
    check_result("unshare", libc().unshare(CLONE_NEWNS))
    mount("none", "/", MS_REC | MS_PRIVATE)
    root = paths.real(root)
    while True:
        places = process_files(root)
        if not places:
            return
        check_result(
            f"umount2 {places[0]}",
            libc().umount2(os.fsencode(places[0]), MNT_DETACH | UMOUNT_NOFOLLOW),
        )


def process_files(root: str) -> list[str]:
    """The paths below the root at which procfs, or a part of it, is mounted."""
    found: list[str] = []
    for line in (
        paths.read_bytes("/proc/self/mountinfo").decode(errors="surrogateescape").splitlines()
    ):
        fields, _, kind = line.partition(" - ")
        place = unescaped(fields.split(" ")[4])
        if (
            kind.startswith("proc ")
            and place.startswith(root.rstrip("/") + "/")
            and not place.endswith("//deleted")
        ):
            found.append(place)
    return found


def unescaped(text: str) -> str:
    """mountinfo writes blanks and backslashes as octal numbers."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def enter(root: str) -> None:
    """Make the container's root this process's own. Nothing may be imported afterwards: it would be
    the image's.
    """
    sys.meta_path.clear()
    check_result("unshare", libc().unshare(CLONE_NEWNS))
    mount(root, root, MS_BIND | MS_REC)
    os.chdir(root)
    number = PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        os.chroot(".")
    else:
        check_result("pivot_root", libc().syscall(ctypes.c_long(number), b".", b"."))
        check_result("umount2", libc().umount2(b".", MNT_DETACH))
    os.chdir("/")


def give_up_rights() -> None:
    """Give up all rights but those to read and write files: the next program reads an image's
    files.
    """
    for right in range(LAST_RIGHT + 1):
        if right not in KEPT_RIGHTS:
            libc().prctl(PR_CAPBSET_DROP, ctypes.c_ulong(right), 0, 0, 0)


def mount_over(root: str, path: str, change: Callable[[str], str | None]) -> None:
    """Show the container another text in the place of a file of /proc, where `change` has one."""
    try:
        text = change(read_regular(path, TEXT_LIMIT).decode(errors="surrogateescape"))
    except OSError:
        return
    if text is None:
        return
    folder = tempfile.mkdtemp(prefix="nvidia-ctk-")
    mount_empty(folder, TEXT_LIMIT)  # only a file of some mount can be bound elsewhere
    try:
        content = Path(folder, "content")
        content.write_text(text, errors="surrogateescape")
        content.chmod(0o444)
        mount(
            "none", folder, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
        )  # what is bound is too
        with Root(root).folder(path) as target:
            mount(str(content), f"/proc/self/fd/{target}", MS_BIND)
    finally:
        check_result("umount2", libc().umount2(folder.encode(), MNT_DETACH))
        os.rmdir(folder)


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def mount_empty(folder: str, size: int) -> None:
    mount("tmpfs", folder, MS_NOSUID | MS_NODEV | MS_NOEXEC, "tmpfs", f"size={size},mode=0755")


def mount(source: str, target: str, flags: int, kind: str = "", options: str = "") -> None:
    words = [os.fsencode(word) or None for word in (source, target, kind, options)]
    result = libc().mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    check_result(f"mount {target}", result)


def check_result(what: str, result: int) -> None:
    if result < 0:
        raise RuntimeFault(f"{what}: {os.strerror(ctypes.get_errno())}")
