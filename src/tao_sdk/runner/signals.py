"""Signals: pass them on to the command, and give it time to end before it is killed.

All work is done in the handlers, which also run while the runner waits for a slow reader of its
output.

`_signal` is Python's `signal` without its enums. The enums take a third as long to import as
python3 takes to start, and the command would wait for them.
"""

from __future__ import annotations

import _signal as signal
import os
import time

from tao_sdk.runner.report import Stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from tao_sdk.runner.results_folder import ResultsFolder

FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGQUIT,
)
# requests to end: the grace period begins
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them; the command should not


class Signals:
    """Handles the runner's signals. Once it is constructed, no signal ends the runner unnoticed,
    not even as process 1 of a container.
    """

    def __init__(self, results: ResultsFolder) -> None:
        self.results = results
        self.share = 1.0  # the command's part of the job's grace
        self.group = 0  # the command's process group while it runs
        # True from the command's start on: while no command runs, a signal is only remembered
        self.hold = False
        self.first = 0  # the first signal that asked for an end
        self.told_at = 0.0  # time of that signal, on the monotonic clock
        self.killed = False  # True if the command was killed because its time was up
        self.taken = [number for number in FORWARDED if signal.getsignal(number) != signal.SIG_IGN]
        for number in self.taken:
            signal.signal(number, self.forward)
        signal.signal(signal.SIGALRM, self.kill_command)

    def forward(self, number: int, _: FrameType | None) -> None:
        """Pass a signal on. The first request to end sets the time limit. Raises Stopped if no
        command has been started.
        """
        if number in ENDING and not self.first:
            adopt_orphans()
        self.signal_group(number)
        if number in ENDING:
            if not self.first:
                self.first, self.told_at = number, time.monotonic()
                self.results.take_grace()
            self.start_grace()
        if not self.group and not self.hold:
            raise Stopped(number)

    def end_command(self) -> None:
        """Ask the group to end, unless a SIGTERM already did, and kill it when its time is up."""
        if self.first != signal.SIGTERM:
            self.signal_group(signal.SIGTERM)
        self.start_grace()

    def start_grace(self) -> None:
        if signal.getitimer(signal.ITIMER_REAL)[0] == 0:
            signal.setitimer(signal.ITIMER_REAL, max(self.command_grace(), 0.001))

    def command_grace(self) -> float:
        """The seconds that the command has to end."""
        return self.results.grace * self.share

    def kill_command(self, *_: object) -> None:
        self.killed |= bool(self.group)
        self.signal_group(signal.SIGKILL)

    def signal_group(self, number: int) -> None:
        """Send a signal to the whole group, if there is one."""
        try:
            if self.group:
                os.killpg(self.group, number)
        except OSError:
            pass

    def time_left(self) -> float:
        """The seconds until the job must be over; infinite without a request to end."""
        if self.first:
            return self.told_at + self.results.grace - time.monotonic()
        return float("inf")

    def command_started(self, group: int) -> None:
        """Note that the command runs, and pass on a request to end that came during its start."""
        self.group = group
        if self.first:
            self.forward(self.first, None)

    def command_ended(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.group = 0


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends. Do nothing without ctypes."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
    except (ImportError, OSError, AttributeError):
        return
