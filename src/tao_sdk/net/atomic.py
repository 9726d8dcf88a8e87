"""Writing a file so that nobody ever sees half of it: a temporary name beside it, synced, then
renamed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import IO

PART_END = (
    ".tao-part"  # the end of names that are never results: what is on its way to a name of its own
)

BLOCK = 1 << 20  # bytes


def write(path: str, data: bytes, mode: int, settle: Callable[[int], None] = os.fsync) -> None:
    """Replace `path` by `data`. Raises OSError; nothing is left behind then. `settle` makes the
    data outlive a power cut.
    """
    with replacing(path, mode) as file:
        file.write(data)
        file.flush()
        settle(file.fileno())


@contextlib.contextmanager
def replacing(path: str, mode: int = 0o666) -> Generator[IO[bytes], None, None]:
    """A new file that takes the place of `path` at the end of the block; what raises there leaves
    nothing behind.
    """
    temporary = temporary_name(path)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(fd, "wb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def unsettled(fd: int) -> None:
    """For what is written anew at every start."""


def temporary_name(path: str) -> str:
    """A hidden name beside `path` that no other process uses, on this host or another; at most 223
    bytes.
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:50]}.{os.urandom(6).hex()}{PART_END}")


def now(folder: str) -> float:
    """By the clock of a folder's file system, which may be another host's; by our own where we may
    only look.
    """
    path = temporary_name(os.path.join(folder, ".now"))
    try:
        with open(path, "xb") as file:
            found = os.fstat(file.fileno()).st_mtime
        os.unlink(path)
    except OSError:
        return time.time()
    return found


def copy_whole(source: str, target: str) -> None:
    """Write a complete copy, or nothing."""
    with open(source, "rb") as new, replacing(target) as file:
        before = os.fstat(new.fileno())
        append_rest(new, file)
        file.flush()
        take_times_and_mode(before, file.fileno())


def append_rest(new: IO[bytes], old: IO[bytes]) -> None:
    """Write the rest of `new` to `old`."""
    while True:
        data = new.read(BLOCK)
        if not data:
            return
        old.write(data)


def take_times_and_mode(source: os.stat_result, target: str | int) -> None:
    """Give a copy the mode and the times that its source had before it was read: a later change of
    the source is then seen.
    """
    os.utime(target, ns=(source.st_atime_ns, source.st_mtime_ns))
    os.chmod(target, stat.S_IMODE(source.st_mode))
