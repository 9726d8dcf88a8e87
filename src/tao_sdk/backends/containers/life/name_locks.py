"""Name locks: for steps that only one process of this machine may do at a time.

One submit of a job, so that two submits do not deliver into the same container. One creation or
removal of a network.
"""

from __future__ import annotations

import fcntl
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tao_sdk.store.private_files import make_folders

LOCKS = 64  # lock files; two names may share one, which costs a wait


class NameLocks:
    """One lock for each name.

    The locks are files in `folder`. They work between processes, and a process's end frees its own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def hold(self, name: str) -> Generator[None]:
        """Wait for the lock of `name` (a job's id, a network's name), and hold it."""
        make_folders(self.folder)
        with (self.folder / f"turn-{zlib.crc32(name.encode()) % LOCKS}").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
