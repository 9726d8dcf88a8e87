"""The dynamic linker's cache of a container, made by the host's ldconfig of what lies in the
container's root.

An image may hold anything where its cache and its lists of folders are: links that lead out, pipes
that never end, nodes of the host's disks. So ldconfig opens none of these. The lists are read here,
and what ldconfig writes is put into the container from here.
"""

from __future__ import annotations

import os
import signal
import sys

from .. import elf, paths, settings
from ..errors import RuntimeFault, reason
from . import library_lists, mounts
from .hook_root import Root, read_regular

CACHE, SIZE_LIMIT = "ld.so.cache", 64 << 20
TIME_LIMIT = 60
# Two folders that no library lies in are hidden from ldconfig. What we ask for goes into the first.
# A cache of its own that nobody needs goes into the second, where there is one.
SCRATCH, OWN_CACHE = "/proc", "/var/cache"


def update(root: str, folders: list[str], ldconfig: str = "", name: str = "00-nvcr") -> None:
    """Have the container's programs find libraries in these folders, and those that its own lists
    name.
    """
    box = Root(root)
    if folders:
        library_lists.note(box, folders, name)
    searched = list(dict.fromkeys([*library_lists.folders(box), *folders]))
    program = stand_alone((ldconfig or settings.host_ldconfig("@/sbin/ldconfig")).removeprefix("@"))
    mounts.leave(root)
    scratch = hidden(root)
    build(root, program, searched)
    box.write("/etc", CACHE, read_regular(CACHE, SIZE_LIMIT, folder=scratch))


def stand_alone(path: str) -> int:
    """An open descriptor of the host's ldconfig. One that loads libraries would
    load the image's.
    """
    try:
        if not elf.is_static(paths.read_bytes(path, SIZE_LIMIT)):
            raise RuntimeFault(
                f"{path} loads libraries, which would be the container's; "
                "name another --ldconfig-path"
            )
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except elf.NotElf:
        raise RuntimeFault(
            f"{path} is no program for this machine; name another --ldconfig-path"
        ) from None
    except OSError as error:
        raise RuntimeFault(f"cannot read {path}: {reason(error)}") from None


def hidden(root: str) -> int:
    """Put empty folders over two of the container's, for this process and its children; a
    descriptor of the first.
    """
    box = Root(root)
    with box.folder(SCRATCH, create=True) as place:
        mounts.mount_empty(f"/proc/self/fd/{place}", SIZE_LIMIT)
    try:
        with box.folder(OWN_CACHE) as place:
            mounts.mount_empty(f"/proc/self/fd/{place}", SIZE_LIMIT)
    except FileNotFoundError:
        pass
    return box.walk(SCRATCH)


def build(root: str, program: int, folders: list[str]) -> None:
    """In a child, because it moves into the container's root and must not come back with it."""
    words = ["ldconfig", "-C", f"{SCRATCH}/{CACHE}", "-f", "", *folders]
    child = os.fork()
    if child == 0:
        try:
            mounts.enter(root)
            mounts.give_up_rights()
            signal.alarm(TIME_LIMIT)
            os.execve(program, words, {})
        except (OSError, RuntimeFault) as error:
            print(f"update-ldcache: {error}", file=sys.stderr)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise RuntimeFault("failed to update the container's ldcache")


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isascii() and part.isdigit())


def is_newer(version: str, host: str) -> bool:
    """Compatibility libraries are made for older drivers: they count when their major version is a
    later one.
    """
    return version_key(version)[:1] > version_key(host)[:1]
