"""Start the command: a shell in a process group of its own.

Not here: everything after the start (relay.py, which is imported while the command already runs).
"""

from __future__ import annotations

import _signal as signal  # signals.py says why
import os

from tao_sdk.net.failure import Failure
from tao_sdk.runner import private
from tao_sdk.runner.signals import RESTORED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tao_sdk.runner.report import Report
    from tao_sdk.runner.signals import Signals

SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh", "/usr/bin/sh")
HEAD_START = 20  # milliseconds
LONGEST_ARGUMENT = 100_000  # Linux allows 131,071 bytes in one argument


class Command:
    """A shell command, with the pipes for its output and for the signal of its end."""

    def __init__(self, text: str, report: Report, signals: Signals) -> None:
        self.text, self.report, self.signals = text, report, signals
        self.pid = 0
        self.script = ""
        self.streams: dict[int, int] = {}  # our end of its pipe -> our stream
        self.wake, self.alarm = os.pipe()
        for end in (self.wake, self.alarm):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self.alarm, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, ignore_signal)

    def start(self, env: Mapping[str, str]) -> None:
        """Start the shell. Signals are held until `command_started`, so that none misses the
        command. Raises Failure.
        """
        self.signals.hold = True
        out = os.pipe()
        # with one pipe, the output keeps its order
        err = out if self.report.one_stream else os.pipe()
        try:
            self.pid = os.posix_spawn(
                *self.shell_arguments(),
                dict(env),
                file_actions=[(os.POSIX_SPAWN_DUP2, out[1], 1), (os.POSIX_SPAWN_DUP2, err[1], 2)],
                setpgroup=0,
                setsigdef=[*self.signals.taken, *RESTORED, signal.SIGCHLD],
            )
        except OSError as error:
            raise not_started(error) from error
        self.signals.command_started(self.pid)
        self.streams = {out[0]: 1, err[0]: 2}
        for fd in {out[1], err[1]}:
            os.close(fd)
        for fd in self.streams:
            os.set_blocking(fd, False)
        hand_over_terminal(self.pid)

    def let_it_begin(self) -> None:
        """Leave the processor to the command until it prints or ends, at most HEAD_START: the
        runner's next steps take as long as a small command.
        """
        import select

        poll = select.poll()
        for fd in (self.wake, *self.streams):
            poll.register(fd, select.POLLIN)
        poll.poll(HEAD_START)

    def shell_arguments(self) -> tuple[str, list[str]]:
        """(shell, its arguments): the text after `-c` if it fits into an argument, else the path of
        a private file with it.
        """
        shell = find_shell()
        if len(os.fsencode(self.text)) < LONGEST_ARGUMENT:
            return shell, [shell, "-c", self.text]
        self.script = private.write_file(os.fsencode(self.text))
        return shell, [shell, self.script]


def ignore_signal(*_: object) -> None:
    """A signal handler that does nothing; the signal itself wakes the loop."""


def find_shell() -> str:
    for path in SHELLS:
        if os.access(path, os.X_OK):
            return path
    raise Failure(
        "command.missing",
        "The image has neither bash nor sh.",
        "",
        "Use an image with /bin/sh.",
    )


def not_started(error: OSError) -> Failure:
    return Failure("command.missing", "The command could not be started.", f"{error.strerror}.")


def hand_over_terminal(group: int) -> None:
    """At a terminal, put the command's group in the foreground, so that it can read and gets
    Ctrl-C.
    """
    if not os.isatty(0):
        return
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(0, group)
        os.killpg(group, signal.SIGCONT)
    except OSError:
        return
