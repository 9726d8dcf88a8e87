"""Ending: end any number of canceled attempts in one wait.

The caller first puts the file `cancel` into each attempt's folder.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from datetime import timedelta

from tao_sdk.backends.local import parse
from tao_sdk.backends.local.job import sight
from tao_sdk.backends.local.job.folder import Folder, is_taken, take_lock
from tao_sdk.transports import process

QUICK, SLOW = 0.02, 0.2  # seconds between looks at attempts that have not ended


def wait_for_all(endings: Sequence[Ending], longest: timedelta) -> None:
    """Wait until all attempts are over, at most `longest`."""
    give_up_at = time.monotonic() + longest.total_seconds()
    left = not_over(endings)
    while left and time.monotonic() <= give_up_at:
        time.sleep(min(max(QUICK, len(left) / 1000), SLOW))
        left = not_over(left)


def not_over(endings: Sequence[Ending]) -> list[Ending]:
    """Take one step towards the end of each, and return those that are not over."""
    return [ending for ending in endings if not ending.is_over()]


class Ending:
    """The end of one attempt that was marked as canceled.

    Its supervisor ends it. If it has none, this class does.
    """

    def __init__(self, folder: Folder, grace: float) -> None:
        self.folder, self.grace = folder, grace
        self.told = False
        self.asked_at = 0.0  # when we ourselves asked the job to end
        self.departed: dict[int, process.Identity] = {}  # its workers in sessions of their own

    def is_over(self) -> bool:
        """Take one step towards the end. True once the end is recorded."""
        if self.folder.has_file("exit") or not self.folder.has_file("attempt"):
            return True
        supervisor, leader = (
            self.folder.read_identity("supervisor"),
            self.folder.read_identity("process"),
        )
        if supervisor and supervisor.alive:
            self.tell_supervisor(supervisor)
        elif supervisor and not supervisor.this_space and is_taken(self.folder.file_path("lock")):
            # it runs in another container of this machine; its supervisor there sees the mark
            return False
        elif leader:
            return self.end_job(leader)
        else:
            self.forestall_start()
        return self.folder.has_file("exit")

    def tell_supervisor(self, supervisor: process.Identity) -> None:
        if not self.told:
            process.signal_process(supervisor, signal.SIGTERM)
            process.signal_process(supervisor, signal.SIGCONT)
            self.told = True

    def end_job(self, leader: process.Identity) -> bool:
        """End a job that has no supervisor. True once it is over.

        Asks the job to end, kills it after the grace, and records the end if this is why it ended.
        Before each step, looks for workers in sessions of their own. This only works while their
        parents live: afterwards nothing shows which job they belong to.
        """
        found = process.find_departed(leader, thorough=not self.asked_at)
        self.departed.update({one.pid: one for one in found})
        if not process.living_groups(leader):
            self.kill_departed()
            if self.asked_at:
                self.folder.record_exit(
                    parse.canceled_record(sight.begin_time(self.folder), time.time())
                )
            return True
        if not self.asked_at:
            process.ask_to_end(leader)
            self.asked_at = time.monotonic()
        elif time.monotonic() > self.asked_at + self.grace:
            process.kill(leader)
        return False

    def kill_departed(self) -> None:
        """Kill the workers that outlive their launcher: they would keep the GPUs' memory."""
        for one in self.departed.values():
            process.signal_process(one, signal.SIGKILL)

    def forestall_start(self) -> None:
        """Record the end of an attempt without a supervisor, so that none starts it any more.

        If somebody has the lock, a supervisor is about to start. It will see the mark `cancel`.
        """
        lock = take_lock(self.folder.file_path("lock"))
        if lock is None:
            return
        try:
            if not self.folder.has_file("process"):
                self.folder.record_exit(parse.canceled_record(None, time.time()))
        finally:
            os.close(lock)
