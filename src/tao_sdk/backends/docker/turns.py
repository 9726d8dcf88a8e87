"""Turns: one submit of a job at a time on this machine, so that two do not deliver into the same container."""

from __future__ import annotations

import fcntl
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

LOCKS = 64  # files; two jobs may share one, which costs a wait


class Turns:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def taken(self, job_id: str) -> Generator[None]:
        self.folder.mkdir(0o700, parents=True, exist_ok=True)
        with (self.folder / f"turn-{zlib.crc32(job_id.encode()) % LOCKS}").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
