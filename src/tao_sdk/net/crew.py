"""Threads that work on one thing. If one fails, all stop, and the waiting thread gets its error."""

from __future__ import annotations

import _signal as signal  # runner/signals.py says why
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def start_thread(work: Callable[..., object], *arguments: object) -> threading.Thread | None:
    """Start a thread that receives no signals. None if the machine allows no more threads."""

    def undisturbed() -> None:
        # signals belong to the main thread
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        work(*arguments)

    thread = threading.Thread(target=undisturbed, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def catch_error(work: Callable[..., object], *arguments: object) -> BaseException | None:
    """Do the work, and return the error that ended it, or None."""
    try:
        work(*arguments)
    except BaseException as error:  # noqa: BLE001  the end of a thread: no caller would see it
        return error
    return None


class Crew:
    """A group of threads. They wait on `changed` and notify it. `broken` is the error that stops
    them all, or None.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.Lock())
        self.broken: BaseException | None = None
        self.threads: list[threading.Thread] = []

    def start(self, count: int, work: Callable[[], None]) -> None:
        """Start threads until there are `count`, or as many as the machine allows. If it allows
        none, do the work in this thread.
        """
        while len(self.threads) < count:
            thread = start_thread(self.run_work, work)
            if thread is None:
                break
            self.threads.append(thread)
        if count and not self.threads:
            self.run_work(work)

    def run_work(self, work: Callable[[], None]) -> None:
        error = catch_error(work)
        if error:
            self.stop(error)

    def stop(self, why: BaseException) -> None:
        """Tell all threads to end, with the reason. The first reason counts."""
        with self.changed:
            self.broken = self.broken or why
            self.changed.notify_all()

    def join(self) -> None:
        """Wait until all threads have ended. Raises the error of the first that failed."""
        for each in self.threads:
            each.join()
        if self.broken:
            raise self.broken
