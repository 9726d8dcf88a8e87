"""Keeping the results: at every interval while the command runs, and once more at its end, however
it ended.

Where they are kept is a destination's: a folder (folder.py), or a prefix in a bucket (bucket.py).
"""

from __future__ import annotations

import threading
import time

from tao_sdk.net import atomic
from tao_sdk.net.crew import catch_error, start_thread
from tao_sdk.runner.outputs.destination import never_written
from tao_sdk.runner.outputs.ending import Ending
from tao_sdk.runner.trouble import crash_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tao_sdk.runner.outputs.bucket import Bucket
    from tao_sdk.runner.outputs.folder import Folder
    from tao_sdk.runner.place import Place
    from tao_sdk.runner.report import Report
    from tao_sdk.runner.signals import Signals

    Destination = Folder | Bucket

GLANCE = 0.5  # seconds between looks whether the job was told to end
# seconds that keeping results has at least: log, manifest and what is on this machine need no more
MOMENT = 1.0
SPARE = 0.5  # seconds of the grace that are left for saying what was not kept, and for giving it up
LAST = 1.0  # seconds for giving up what is on its way; a store that is away would take longer


class Keeper:
    """Keeps every destination up to date. Problems are told once each; none of them ends the
    command.
    """

    def __init__(
        self, destinations: Sequence[Destination], place: Place, report: Report, signals: Signals
    ) -> None:
        self.destinations, self.place, self.report, self.signals = (
            destinations,
            place,
            report,
            signals,
        )
        self.told_problems: set[str] = set()
        self.over = threading.Event()
        self.thread: threading.Thread | None = None

    def start(self, wake: Callable[[], None]) -> None:
        """Look after the results from a thread of its own; `wake` makes the main one tell what was
        queued.

        Where there can be no such thread, all of them are kept at the end.
        """
        self.wake = wake
        self.thread = start_thread(self.watch_results)

    def watch_results(self) -> None:
        error = catch_error(self.look_after)
        if error:  # what is not kept by now is kept at the end, or fails there
            self.report.queue_event("warning", **crash_failure(error).facts)

    def look_after(self) -> None:
        while not self.wait_interval():
            self.sync_all()
            self.wake()

    def wait_interval(self) -> bool:
        """An interval, or less when the job is told to end: then it is high time. True when the
        command is over.
        """
        latest, last_signal = time.monotonic() + self.place.interval, self.signals.first
        while time.monotonic() < latest and self.signals.first == last_signal:
            if self.over.wait(min(GLANCE, max(latest - time.monotonic(), 0.001))):
                return True
        return self.over.is_set()

    def sync_all(self) -> None:
        for destination in self.destinations:
            try:
                self.tell_problems(destination.sync(self.over.is_set))
            except OSError as error:
                self.tell_problems([f"the manifest: {error.strerror}"])

    def tell_problems(self, problems: list[str]) -> None:
        new = [problem for problem in problems if problem not in self.told_problems]
        self.told_problems.update(new)
        if new:
            self.report.queue_event(
                "warning",
                code="output.left_out",
                what=f"{len(new)} paths could not be kept.",
                why="Each path says why.",
                next="Remove or repair what is in the way; the other results are kept.",
                paths=new,
            )

    def told_to_end(self) -> bool:
        return bool(self.signals.first)

    def finish(self, exit_code: int, judged: int) -> None:
        """Keep everything, after the command's end. What one destination fails at is raised once
        all had their turn.

        A job that was told to end does not wait for a slow or a silent store beyond its grace.
        """
        ending = self.make_ending(exit_code, judged)
        self.over.set()
        errors: list[BaseException] = []
        closing = start_thread(self.end_all, ending, errors)
        if not closing:
            self.end_all(ending, errors)
        elif not self.in_time(closing):
            self.report.tell_queued()
            raise self.given_up(errors)
        self.report.tell_queued()
        for error in errors:
            raise error

    def make_ending(self, exit_code: int, judged: int) -> Ending:
        ended = atomic.now(self.place.own_folder)
        told_at = ended - (time.monotonic() - self.signals.told_at) if self.signals.first else 0.0
        return Ending(exit_code, judged, ended, told_at, self.signals.killed)

    def end_all(self, ending: Ending, errors: list[BaseException]) -> None:
        """End every destination, in a thread of its own."""
        if self.thread:
            self.thread.join()
        errors += filter(
            None,
            [
                catch_error(self.end_destination, destination, ending)
                for destination in self.destinations
            ],
        )

    def in_time(self, closing: threading.Thread) -> bool:
        """Wait for it, for as long as there is time; a command that used up the grace leaves it a
        moment all the same.
        """
        least = time.monotonic() + MOMENT
        while closing.is_alive() and (self.signals.time_left() > SPARE or time.monotonic() < least):
            closing.join(GLANCE)
        return not closing.is_alive()

    def given_up(self, errors: list[BaseException]) -> BaseException:
        """Leave nothing on its way, and say what was not kept."""
        abandoning = start_thread(self.abandon_all)
        failures = [
            destination.given_up() for destination in self.destinations if not destination.closed
        ]
        if abandoning:
            abandoning.join(LAST)
        return [*errors, *failures][0]

    def abandon_all(self) -> None:
        for destination in self.destinations:
            catch_error(destination.abandon)

    def end_destination(self, destination: Destination, ending: Ending) -> None:
        self.tell_problems(destination.finish(ending, self.told_to_end, self.report))
        destination.closed = True
        for path in set(destination.missing) - self.place.optional:
            self.report.queue_event("warning", **never_written(path))
        if destination.failure:
            raise destination.failure
