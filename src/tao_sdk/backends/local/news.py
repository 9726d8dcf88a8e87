"""News of local jobs: by the times of their folders, the sizes of their logs, and the list of
processes.

A look at one job opens five files; this takes two questions to the file system. However many jobs
there are, listening takes at most a three-hundredth of a core.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tao_sdk.backends.local.job.folder import Folder
from tao_sdk.model.plan import Ref

PAUSES = 300  # a pause is so many times as long as the check before it
CLOCK_TICK = 50_000_000  # nanoseconds; clocks of file systems tick each 10 ms at the slowest
QUICK = 0.1  # seconds, the shortest pause


class LocalNews:
    """`folder_of` says where an attempt's folder is."""

    def __init__(self, folder_of: Callable[[Ref], Folder]) -> None:
        self.folder_of = folder_of
        self.folders: dict[Ref, str] = {}
        self.processes: dict[Ref, list[str]] = {}  # of attempts that run: their supervisor, the job
        self.times: dict[Ref, int] = {}
        self.sizes: dict[Ref, int] = {}
        self.next_check = 0.0

    def changed(self, refs: Sequence[Ref], seconds: float) -> list[Ref]:
        give_up_at = time.monotonic() + seconds
        while not (changed := self.check(refs)) and time.monotonic() < give_up_at:
            next_check = max(self.next_check, time.monotonic() + QUICK)
            time.sleep(max(0.0, min(next_check, give_up_at) - time.monotonic()))
        return changed

    def check(self, refs: Sequence[Ref]) -> list[Ref]:
        """Those that have changed by now. Before it is time for a check, only those that are
        new.
        """
        began = time.monotonic()
        if began < self.next_check:
            return [ref for ref in refs if self.is_new(ref)]
        living = set(os.listdir("/proc"))  # noqa: PTH208  the names alone
        changed = [ref for ref in refs if self.is_new(ref) or self.has_changed(ref, living)]
        ended = time.monotonic()
        self.next_check = ended + max(QUICK, PAUSES * (ended - began))
        return changed

    def is_new(self, ref: Ref) -> bool:
        if ref in self.times:
            return False
        folder = self.folder_of(ref)
        self.folders[ref] = folder.path
        self.times[ref] = changed_at(folder.path)
        self.processes[ref] = running(folder)
        return True

    def has_changed(self, ref: Ref, living: set[str]) -> bool:
        path = self.folders[ref]
        changed = changed_at(path)
        if changed == self.times[ref] != -1 and living.issuperset(self.processes[ref]):
            return False
        self.times[ref] = changed
        self.processes[ref] = [pid for pid in running(Folder(path)) if pid in living]
        return True

    def grown(self, refs: Sequence[Ref]) -> list[Ref]:
        return [ref for ref in refs if self.has_grown(ref)]

    def has_grown(self, ref: Ref) -> bool:
        path = self.folders.get(ref) or self.folder_of(ref).path
        size = size_of(f"{path}/log")
        grown = size != self.sizes.get(ref)
        self.sizes[ref] = size
        return grown

    def close(self) -> None:
        """Nothing is open."""


def changed_at(folder: str) -> int:
    """When a file of the folder last came or went, in nanoseconds; 0 when it is not there.

    -1 when that was a moment ago: another file may come at what the clock calls the same time.
    """
    try:
        changed = os.stat(folder).st_mtime_ns  # noqa: PTH116  keeps the path as a text
    except OSError:
        return 0
    return changed if abs(time.time_ns() - changed) > CLOCK_TICK else -1


def size_of(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return -1


def running(folder: Folder) -> list[str]:
    """The ids of the supervisor and of the job, where they are in this process table."""
    if Path(folder.file("exit")).exists():
        return []
    named = (folder.identity("supervisor"), folder.identity("process"))
    return [str(one.pid) for one in named if one and one.this_space]
