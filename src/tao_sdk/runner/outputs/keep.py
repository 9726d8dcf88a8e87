"""Keep the results: at every interval while the command runs, and once more at its end, however it
ended.

Not here: the destinations, a folder (folder.py) or a prefix in a bucket (bucket.py).
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
    from tao_sdk.runner.report import Report
    from tao_sdk.runner.results_folder import ResultsFolder
    from tao_sdk.runner.signals import Signals

    Destination = Folder | Bucket

GLANCE = 0.5  # seconds between checks for a request to end
# seconds for the results, at least: enough for the log, the manifest and local files
MOMENT = 1.0
SPARE = 0.5  # seconds of the grace left to report and abort what was not kept
LAST = 1.0  # seconds to abort uploads in progress; a store that is away would take longer


class Keeper:
    """Keeps every destination up to date. Each problem is reported once; none ends the command."""

    def __init__(
        self,
        destinations: Sequence[Destination],
        results: ResultsFolder,
        report: Report,
        signals: Signals,
    ) -> None:
        self.destinations, self.results, self.report, self.signals = (
            destinations,
            results,
            report,
            signals,
        )
        self.told_problems: set[str] = set()
        self.over = threading.Event()
        self.thread: threading.Thread | None = None

    def start(self, wake: Callable[[], None]) -> None:
        """Keep the results up to date in a new thread. `wake` makes the main thread write queued
        events.

        If no thread can be started, all results are kept at the end.
        """
        self.wake = wake
        self.thread = start_thread(self.watch_results)

    def watch_results(self) -> None:
        error = catch_error(self.look_after)
        if error:  # the rest is kept at the end, or fails there
            self.report.queue_event("warning", **crash_failure(error).facts)

    def look_after(self) -> None:
        while not self.wait_interval():
            self.sync_all()
            self.wake()

    def wait_interval(self) -> bool:
        """Wait an interval, or less if the job is told to end. True once the command has ended."""
        latest, last_signal = time.monotonic() + self.results.interval, self.signals.first
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
        """Keep everything, after the command's end. Raises the first error, once all destinations
        had their turn.

        A job that was told to end does not wait for a slow or silent store beyond its grace.
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
        if self.results.older_files:
            self.results.older_files.tell_left_out(self.report)
        self.report.tell_queued()
        for error in errors:
            raise error

    def make_ending(self, exit_code: int, judged: int) -> Ending:
        ended = atomic.file_system_time(self.results.own_folder)
        told_at = ended - (time.monotonic() - self.signals.told_at) if self.signals.first else 0.0
        return Ending(exit_code, judged, ended, told_at, self.signals.killed)

    def end_all(self, ending: Ending, errors: list[BaseException]) -> None:
        """Finish every destination, and collect the errors."""
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
        """Wait for the thread while there is time, at least MOMENT seconds even if the command used
        up the grace. True if it has ended.
        """
        least = time.monotonic() + MOMENT
        while closing.is_alive() and (self.signals.time_left() > SPARE or time.monotonic() < least):
            closing.join(GLANCE)
        return not closing.is_alive()

    def given_up(self, errors: list[BaseException]) -> BaseException:
        """Abort uploads in progress, and return the first error or Failure."""
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
        for path in set(destination.missing) - self.results.optional:
            self.report.queue_event("warning", **never_written(path))
        if destination.failure:
            raise destination.failure
