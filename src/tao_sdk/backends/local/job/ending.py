"""Ending attempts that somebody has canceled: any number of them, in one wait.

The mark `cancel` lies in an attempt's folder before anything here is called.
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

QUICK, SLOW = 0.02, 0.2  # seconds between looks at what has not ended


def wait_for_all(endings: Sequence[Ending], longest: timedelta) -> None:
    """Until all are over, or the time for that is."""
    give_up_at = time.monotonic() + longest.total_seconds()
    left = not_over(endings)
    while left and time.monotonic() <= give_up_at:
        time.sleep(min(max(QUICK, len(left) / 1000), SLOW))
        left = not_over(left)


def not_over(endings: Sequence[Ending]) -> list[Ending]:
    """Takes one step towards the end of each."""
    return [ending for ending in endings if not ending.is_over()]


class Ending:
    """The end of one attempt that was marked as canceled.

    Its supervisor ends it. Where it has none, we do.
    """

    def __init__(self, folder: Folder, grace: float) -> None:
        self.folder, self.grace = folder, grace
        self.told = False
        self.asked_at = 0.0  # when we asked the job ourselves
        self.departed: dict[int, process.Identity] = {}  # its workers in sessions of their own

    def is_over(self) -> bool:
        """One step towards the end; True once it is written down."""
        if self.folder.has_file("exit") or not self.folder.has_file("attempt"):
            return True
        supervisor, leader = (
            self.folder.read_identity("supervisor"),
            self.folder.read_identity("process"),
        )
        if supervisor and supervisor.alive:
            self.tell_supervisor(supervisor)
        elif supervisor and not supervisor.this_space and is_taken(self.folder.file_path("lock")):
            # it runs in another container of this machine, where its supervisor sees the mark
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
        """Without a supervisor: ask the job to end, kill it when its time is up, write it down when
        that is why it ended.

        Workers that departed are looked for before each step, while their parents live: afterwards
        nothing tells whose they are.
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
        """What is left of workers whose launcher has ended: they would keep the GPUs' memory."""
        for one in self.departed.values():
            process.signal_process(one, signal.SIGKILL)

    def forestall_start(self) -> None:
        """Before anybody has taken charge: nobody will any more. Whoever is about
        to sees the mark.
        """
        lock = take_lock(self.folder.file_path("lock"))
        if lock is None:
            return
        try:
            if not self.folder.has_file("process"):
                self.folder.record_exit(parse.canceled_record(None, time.time()))
        finally:
            os.close(lock)
