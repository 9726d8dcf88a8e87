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
    """Knows an attempt by its native id: one question hashes all ids several times a second.

    `folder_of` says where an attempt's folder is.
    """

    tells = True

    def __init__(self, folder_of: Callable[[Ref], Folder]) -> None:
        self.folder_of = folder_of
        self.folders: dict[str, str] = {}
        self.processes: dict[str, list[str]] = {}  # supervisor and job of an attempt that runs
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
        """Those that have changed by now. Before it is time for a check, only the new ones."""
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
        """Nothing is open."""


def changed_at(folder: str) -> int:
    """When a file of the folder last came or went, in nanoseconds; 0 when it is not there.

    -1 when that was a moment ago: another file may come at what the clock calls the same time.
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
    """The ids of the supervisor and of the job, where they are in this process table."""
    if Path(folder.file_path("exit")).exists():
        return []
    ids: list[str] = []
    for name in ("supervisor", "process"):
        identity = folder.read_identity(name)
        if identity and identity.this_space:
            ids.append(str(identity.pid))
    return ids
