"""Writing a file so that nobody ever sees half of it: a temporary name beside it, synced, then
renamed.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

PART_END = (
    ".tao-part"  # the end of names that are never results: what is on its way to a name of its own
)


def write(path: str, data: bytes, mode: int, settle: Callable[[int], None] = os.fsync) -> None:
    """Replace `path` by `data`. Raises OSError; nothing is left behind then. `settle` makes the
    data outlive a power cut.
    """
    with Replacing(path, mode) as file:
        file.write(data)
        file.flush()
        settle(file.fileno())


class Replacing:
    """A new file that takes the place of `path` at the end of the block; what raises there leaves
    nothing behind.
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
