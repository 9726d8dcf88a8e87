"""Keeping the results: at every interval while the command runs, and once more at its end, however it ended.

Where they are kept is a destination's: a folder (folder.py), or a prefix in a bucket (bucket.py).
"""

from __future__ import annotations

import threading
import time

from . import atomic
from .crew import caught, started
from .report import crash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Optional, Sequence, Set

    from .bucket import Bucket
    from .folder import Folder
    from .place import Place
    from .report import Report
    from .signals import Signals

    Destination = Folder | Bucket

GLANCE = 0.5  # seconds between looks whether the job was told to end


class Keeper:
    """Keeps every destination up to date. Problems are told once each; none of them ends the command."""

    def __init__(self, destinations: Sequence[Destination], place: Place, report: Report, signals: Signals) -> None:
        self.destinations, self.place, self.report, self.signals = destinations, place, report, signals
        self.told: Set[str] = set()
        self.over = threading.Event()
        self.thread: Optional[threading.Thread] = None

    def start(self, wake: Callable[[], None]) -> None:
        """Look after the results from a thread of its own; `wake` makes the main one tell what was queued.

        Where there can be no such thread, all of them are kept at the end.
        """
        self.wake = wake
        self.thread = started(self.watch)

    def watch(self) -> None:
        error = caught(self.look_after)
        if error:  # what is not kept by now is kept at the end, or fails there
            self.report.queue("warning", **vars(crash(error)))

    def look_after(self) -> None:
        while not self.wait():
            self.sync()
            self.wake()

    def wait(self) -> bool:
        """An interval, or less when the job is told to end: then it is high time. True when the command is over."""
        latest, told = time.monotonic() + self.place.interval, self.signals.first
        while time.monotonic() < latest and self.signals.first == told:
            if self.over.wait(min(GLANCE, max(latest - time.monotonic(), 0.001))):
                return True
        return self.over.is_set()

    def sync(self) -> None:
        for each in self.destinations:
            try:
                self.tell(each.sync(self.over.is_set))
            except OSError as error:
                self.tell(["the manifest: %s" % error.strerror])

    def tell(self, problems: List[str]) -> None:
        new = [each for each in problems if each not in self.told]
        self.told.update(new)
        if new:
            self.report.queue(
                "warning", code="output.left_out", what="%d paths could not be kept." % len(new), paths=new
            )

    def told_to_end(self) -> bool:
        return bool(self.signals.first)

    def finish(self, exit_code: int) -> None:
        """Keep everything, after the command's end. What one destination fails at is raised once all had their turn."""
        ended = atomic.now(self.place.own)
        self.over.set()
        if self.thread:
            self.thread.join()
        errors = [caught(self.end, each, exit_code, ended) for each in self.destinations]
        self.report.flush()
        for each in filter(None, errors):
            raise each

    def end(self, each: Destination, exit_code: int, ended: float) -> None:
        self.tell(each.finish(exit_code, ended, self.told_to_end, self.report))
        for path in each.missing:
            self.report.queue("warning", code="output.missing", what="The output %s was never written." % path)
        if each.failure:
            raise each.failure
