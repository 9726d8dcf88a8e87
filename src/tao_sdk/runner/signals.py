"""Signals: the runner passes them on to the command, and gives it time to end before it is killed.

All is done in the handlers, which also run while the runner waits for a slow reader of its output.

`_signal` is what Python's `signal` wraps in enums: those take a third as long to import as
python3 itself takes to start, and the command would wait for them.
"""

from __future__ import annotations

import _signal as signal
import os
import time

from tao_sdk.runner.report import Stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from tao_sdk.runner.place import Place

FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGQUIT,
)
ENDING = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGQUIT,
)  # the sender wants an end: the grace period begins
RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them; the command should not


class Signals:
    """From construction on no signal ends the runner unnoticed, not even as process 1 of a
    container.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.share = 1.0  # the command's part of the job's grace
        self.group = 0  # the command's process group while it runs
        # the command is being started, or has ended: a signal is kept in mind, no more
        self.hold = False
        self.first = 0  # the first signal that asked for an end
        self.told_at = 0.0  # when that was, on the monotonic clock
        self.killed = False  # the command was, since its time was up
        self.taken = [number for number in FORWARDED if signal.getsignal(number) != signal.SIG_IGN]
        for number in self.taken:
            signal.signal(number, self.forward)
        signal.signal(signal.SIGALRM, self.kill_command)

    def forward(self, number: int, _: FrameType | None) -> None:
        """Pass a signal on. The first that asks for an end decides how long that may take."""
        if number in ENDING and not self.first:
            adopt_orphans()
        self.signal_group(number)
        if number in ENDING:
            if not self.first:
                self.first, self.told_at = number, time.monotonic()
                self.place.take_grace()
            self.start_grace()
        if not self.group and not self.hold:
            raise Stopped(number)

    def end_command(self) -> None:
        """Ask the group to end unless it was asked before, and kill it when its time is up."""
        if self.first != signal.SIGTERM:
            self.signal_group(signal.SIGTERM)
        self.start_grace()

    def start_grace(self) -> None:
        if signal.getitimer(signal.ITIMER_REAL)[0] == 0:
            signal.setitimer(signal.ITIMER_REAL, max(self.command_grace(), 0.001))

    def command_grace(self) -> float:
        """Seconds that the command has to end."""
        return self.place.grace * self.share

    def kill_command(self, *_: object) -> None:
        self.killed |= bool(self.group)
        self.signal_group(signal.SIGKILL)

    def signal_group(self, number: int) -> None:
        """Give the whole group a signal; nobody there is fine."""
        try:
            if self.group:
                os.killpg(self.group, number)
        except OSError:
            pass

    def time_left(self) -> float:
        """Seconds until the job has to be over; endless while nobody has told it to end."""
        if self.first:
            return self.told_at + self.place.grace - time.monotonic()
        return float("inf")

    def command_started(self, group: int) -> None:
        """The command runs. A signal that came while it was being started reaches it too."""
        self.group = group
        if self.first:
            self.forward(self.first, None)

    def command_ended(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.group = 0


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends. Without ctypes, nobody does."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
    except (ImportError, OSError, AttributeError):
        return
