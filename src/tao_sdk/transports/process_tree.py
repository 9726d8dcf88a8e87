"""ProcessTree: the living processes of this machine and their parents, as of one pass over /proc.

Not here: the lasting identity of one process, and signals (process.py).
"""

from __future__ import annotations

import time
from pathlib import Path

from tao_sdk.transports import process

STOPPED = "T"  # by a signal; one that a debugger holds ("t") goes on by the debugger alone
# programs that only wait for their children, which go on without them
SHELLS = frozenset({"sh", "bash", "dash", "ash", "busybox", "ksh", "zsh"})
PAUSES = 100  # a tree is used again for so many times as long as it took to read


class ProcessTree:
    """One pass over /proc."""

    def __init__(self) -> None:
        began = time.monotonic()
        self.states: dict[int, str] = {}
        self.children: dict[int, list[int]] = {}
        for pid, state, parent in process.list_living():
            self.states[pid] = state
            self.children.setdefault(parent, []).append(pid)
        self.read_at = time.monotonic()
        self.stale_at = self.read_at + PAUSES * (self.read_at - began)

    @property
    def is_stale(self) -> bool:
        """True once it is time to read /proc again."""
        return time.monotonic() >= self.stale_at

    def stopped_processes(self, leader: int) -> tuple[int, ...]:
        """The stopped processes for which `leader` and all below it wait; none while any of them
        can run. The children of a stopped shell can run; the workers of a stopped program wait for
        it.
        """
        stopped: list[int] = []
        seen: set[int] = set()
        to_visit = [leader]
        while to_visit:
            pid = to_visit.pop()
            if pid in seen:
                continue
            seen.add(pid)
            is_stopped = self.states.get(pid) == STOPPED
            if is_stopped:
                stopped.append(pid)
            children = self.children.get(pid, [])
            if not is_stopped and not children:
                return ()
            if not is_stopped or is_shell(pid):
                to_visit += children
        return tuple(sorted(stopped))

    def list_family(self, leader: int) -> list[int]:
        """`leader` and all living processes below it, parents before their children."""
        family = dict.fromkeys([leader])
        to_visit = [leader]
        for pid in to_visit:
            children = [child for child in self.children.get(pid, ()) if child not in family]
            family.update(dict.fromkeys(children))
            to_visit += children
        return list(family)


def is_shell(pid: int) -> bool:
    """True if a process runs a shell; False if that cannot be seen."""
    try:
        program = Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return False
    return program.removesuffix(" (deleted)") in SHELLS


class RecentTree:
    """The newest tree. Reading /proc takes at most a hundredth of a client's time."""

    def __init__(self) -> None:
        self._last: ProcessTree | None = None

    @property
    def recent_tree(self) -> ProcessTree:
        """The last tree, or a new one if that is stale."""
        last = self._last
        if last is None or last.is_stale:
            return self.read_tree()
        return last

    def read_tree(self) -> ProcessTree:
        """The processes as they are now."""
        self._last = ProcessTree()
        return self._last
