"""Write a file so that nobody ever sees half of it: to a temporary file, synced, then renamed."""

from __future__ import annotations

import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

# the end of a temporary file's name; no name with this end is ever a result's
PART_END = ".tao-part"

BLOCK = 1 << 20  # bytes


def write(path: str, data: bytes, mode: int, sync: Callable[[int], None] = os.fsync) -> None:
    """Replace the file at `path` by `data`. If that fails, raise OSError and leave no temporary
    file. `sync(fd)` makes the data outlive a power cut.
    """
    with Replacing(path, mode) as file:
        file.write(data)
        file.flush()
        sync(file.fileno())


class Replacing:
    """A new file that takes the place of `path` at the end of the block. If the block raises,
    nothing is left behind.
    """

    def __init__(self, path: str, mode: int = 0o666) -> None:
        self.path, self.mode = path, mode
        self.temporary = temporary_name(path)

    def __enter__(self) -> IO[bytes]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self.file = open(os.open(self.temporary, flags, self.mode), "wb")
        return self.file

    def __exit__(self, error: object, *_: object) -> None:
        try:
            self.file.close()
            if error is None:
                os.replace(self.temporary, self.path)
        finally:
            remove_file(self.temporary)


def remove_file(path: str) -> None:
    """Delete a file that may be gone already."""
    try:
        os.unlink(path)
    except OSError:
        return


def no_sync(fd: int) -> None:
    """Do not sync: the `sync` for a file that is rewritten at every start."""


def temporary_name(path: str) -> str:
    """A hidden name beside `path` that no other process uses, on this host or another; at most 223
    bytes.
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:50]}.{os.urandom(6).hex()}{PART_END}")


def file_system_time(folder: str) -> float:
    """The unix time by the clock of a folder's file system, which may be another host's; by our own
    clock if no file can be written there.
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
    """Write a complete copy of `source`, or nothing. Raises OSError."""
    with open(source, "rb") as new, Replacing(target) as file:
        before = os.fstat(new.fileno())
        append_rest(new, file)
        file.flush()
        take_times_and_mode(before, file.fileno())


def append_rest(new: IO[bytes], old: IO[bytes]) -> None:
    """Write the rest of the file `new` to the file `old`."""
    while True:
        data = new.read(BLOCK)
        if not data:
            return
        old.write(data)


def take_times_and_mode(source: os.stat_result, target: str | int) -> None:
    """Give a copy the mode and the times that its source had before it was read, so that a later
    change of the source is noticed.
    """
    os.utime(target, ns=(source.st_atime_ns, source.st_mtime_ns))
    os.chmod(target, stat.S_IMODE(source.st_mode))
