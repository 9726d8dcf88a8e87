"""News of local jobs, from their folders' times, their logs' sizes, and the list of processes.

A full look at one job opens five files; this check takes two file system calls per job. However
many jobs there are, listening takes at most 1/300 of a core.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tao_sdk.backends.local.job.folder import Folder
from tao_sdk.model.plan import Ref

PAUSES = 300  # a pause is this many times as long as the check before it
CLOCK_TICK = 50_000_000  # nanoseconds; the slowest file system clocks tick every 10 ms
QUICK = 0.1  # seconds, the shortest pause


class LocalNews:
    """Changes to local attempts, for one listener.

    Keys are native ids, not Refs: a check hashes all keys several times a second. `folder_of`
    returns an attempt's folder.
    """

    tells = True

    def __init__(self, folder_of: Callable[[Ref], Folder]) -> None:
        self.folder_of = folder_of
        self.folders: dict[str, str] = {}
        self.processes: dict[str, list[str]] = {}  # supervisor and job of a running attempt
        self.times: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        self.next_check = 0.0

    def changed(self, refs: Sequence[Ref], seconds: float) -> list[Ref]:
        give_up_at = time.monotonic() + seconds
        while not (changed := self.check(refs)) and time.monotonic() < give_up_at:
            next_check = max(self.next_check, time.monotonic() + QUICK)
            time.sleep(max(0.0, min(next_check, give_up_at) - time.monotonic()))
        return changed

    def check(self, refs: Sequence[Ref]) -> list[Ref]:
        """The attempts that have changed. Before the next check is due, only the new ones."""
        new = [ref for ref in refs if ref.native_id not in self.times]
        for ref in new:
            self.remember(ref)
        began = time.monotonic()
        if began < self.next_check:
            return new
        living = set(os.listdir("/proc"))  # noqa: PTH208  the names alone
        changed = [ref for ref in refs if self.has_changed(ref.native_id, living)]
        ended = time.monotonic()
        self.next_check = ended + max(QUICK, PAUSES * (ended - began))
        return list(dict.fromkeys([*new, *changed]))

    def remember(self, ref: Ref) -> None:
        folder = self.folder_of(ref)
        self.folders[ref.native_id] = folder.path
        self.times[ref.native_id] = changed_at(folder.path)
        self.processes[ref.native_id] = process_ids(folder)

    def has_changed(self, native_id: str, living: set[str]) -> bool:
        path = self.folders[native_id]
        changed = changed_at(path)
        if changed == self.times[native_id] != -1 and living.issuperset(self.processes[native_id]):
            return False
        self.times[native_id] = changed
        self.processes[native_id] = [pid for pid in process_ids(Folder(path)) if pid in living]
        return True

    def grown(self, refs: Sequence[Ref]) -> list[Ref]:
        return [ref for ref in refs if self.has_grown(ref)]

    def has_grown(self, ref: Ref) -> bool:
        path = self.folders.get(ref.native_id) or self.folder_of(ref).path
        size = size_of(f"{path}/log")
        grown = size != self.sizes.get(ref.native_id)
        self.sizes[ref.native_id] = size
        return grown

    def close(self) -> None:
        """Do nothing: nothing is open."""


def changed_at(folder: str) -> int:
    """The time in nanoseconds when a file of the folder last came or went. 0 if it is missing.

    Returns -1 if that was a moment ago: another file may come within the same clock tick.
    """
    try:
        changed = os.stat(folder).st_mtime_ns  # noqa: PTH116  keeps the path as a text
    except OSError:
        return 0
    if abs(time.time_ns() - changed) <= CLOCK_TICK:
        return -1
    return changed


def size_of(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return -1


def process_ids(folder: Folder) -> list[str]:
    """The ids of the supervisor and the job, if they are in this process table."""
    if Path(folder.file_path("exit")).exists():
        return []
    ids: list[str] = []
    for name in ("supervisor", "process"):
        identity = folder.read_identity(name)
        if identity and identity.this_space:
            ids.append(str(identity.pid))
    return ids
