"""The command: started in a process group of its own, its bytes passed on and kept, its end known
exactly.
"""

from __future__ import annotations

import _signal as signal  # signals.py says why
import os
import select
import time

from tao_sdk.net.failure import Failure
from tao_sdk.runner import private
from tao_sdk.runner.report import write_all
from tao_sdk.runner.signals import RESTORED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tao_sdk.runner.report import Report
    from tao_sdk.runner.signals import Signals

SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh", "/usr/bin/sh")
LONGEST_ARGUMENT = 100_000  # Linux takes 131,071 bytes in one argument
CHUNK = 1 << 16
PATIENCE = (
    5.0  # seconds for a killed process to be gone; one that hangs in a dead file system never is
)
# reads that empty any pipe; without a limit a daemon that left the group and writes on would hold
# the job
DRAIN = 64
PAUSE = 50  # milliseconds between two looks at what the command left running


class Command:
    """A shell command from its start to the end of everything it started."""

    def __init__(self, text: str, report: Report, signals: Signals) -> None:
        self.text, self.report, self.signals = text, report, signals
        self.log = -1  # the file that keeps the bytes
        self.status: int | None = None  # of waitpid
        self.pid = 0
        self.script = ""
        self.streams: dict[int, int] = {}  # our end of its pipe -> our stream
        self.wake, self.alarm = os.pipe()

    def run(
        self, env: Mapping[str, str], log: int, meanwhile: Callable[[Callable[[], None]], None]
    ) -> int:
        """Run it and wait for its whole process group. The wait status of the shell."""
        self.log = log
        for end in (self.wake, self.alarm):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self.alarm, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, ignore)
        self.start(env)
        meanwhile(self.awaken)
        self.pump()
        self.clear_group()
        self.drain()
        self.signals.ended()
        assert self.status is not None
        return self.status

    def start(self, env: Mapping[str, str]) -> None:
        """Start the shell. Between here and `started` a signal is kept, so that it cannot miss the
        command.
        """
        self.signals.starting()
        out = os.pipe()
        err = (
            out if self.report.one_stream else os.pipe()
        )  # one pipe, so that the order of what is printed stays
        try:
            self.pid = os.posix_spawn(
                *self.arguments(),
                dict(env),
                file_actions=[(os.POSIX_SPAWN_DUP2, out[1], 1), (os.POSIX_SPAWN_DUP2, err[1], 2)],
                setpgroup=0,
                setsigdef=[*self.signals.taken, *RESTORED, signal.SIGCHLD],
            )
        except OSError as error:
            raise not_started(error) from error
        self.signals.started(self.pid)
        self.streams = {out[0]: 1, err[0]: 2}
        for fd in {out[1], err[1]}:
            os.close(fd)
        for fd in self.streams:
            os.set_blocking(fd, False)
        hand_over_terminal(self.pid)

    def arguments(self) -> tuple[str, list[str]]:
        """The shell with the text as `-c` when it fits into an argument, else as a private file
        that the shell reads.
        """
        shell = the_shell()
        if len(os.fsencode(self.text)) < LONGEST_ARGUMENT:
            return shell, [shell, "-c", self.text]
        self.script = private.file(os.fsencode(self.text))
        return shell, [shell, self.script]

    def pump(self) -> None:
        """Pass bytes on until the shell has ended."""
        while self.status is None:
            self.turn(None)

    def turn(self, timeout: int | None) -> bool:
        """Wait for bytes or a signal and deal with them. False when there was nothing within the
        time (ms).
        """
        poll = select.poll()
        for fd in (self.wake, *self.streams):
            poll.register(fd, select.POLLIN)
        ready = [fd for fd, _ in poll.poll(timeout)]
        for fd in ready:
            if fd == self.wake:
                self.reap()
            else:
                self.pass_on(fd)
        self.report.flush()
        return bool(ready)

    def pass_on(self, fd: int) -> None:
        data = read(fd)
        if data is None:
            return
        if not data:
            os.close(fd)
            del self.streams[fd]
            return
        self.report.relay(self.streams[fd], data)
        if self.log >= 0 and not write_all(self.log, data):
            self.log = -1
            self.report.queue(
                "warning",
                code="log.unwritable",
                what="The log is not kept any more.",
                why="Its disk is full or gone.",
                next=(
                    "Free space where the results are; the output that follows goes to the "
                    "platform's log only."
                ),
            )

    def awaken(self) -> None:
        """Make a waiting `turn` look again; from any thread. A full pipe will do that already."""
        try:
            os.write(self.alarm, b"\0")
        except BlockingIOError:
            return

    def reap(self) -> None:
        """Take note of what has ended: the shell, and as process 1 everybody's orphans."""
        read(self.wake)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = status

    def clear_group(self) -> None:
        """End what the command left running: it has the grace period, then it is killed."""
        if living(self.pid):
            self.signals.end()
        latest = time.monotonic() + self.signals.grace + PATIENCE
        while living(self.pid) and time.monotonic() < latest:
            self.turn(PAUSE)

    def drain(self) -> None:
        """What the processes wrote before they ended is still in the pipes."""
        for _ in range(DRAIN):
            if not (self.streams and self.turn(0)):
                break
        if self.script:
            os.unlink(self.script)


def ignore(*_: object) -> None:
    """A handler that does nothing; that it ran wakes the loop."""


def read(fd: int) -> bytes | None:
    """What is there now; b"" at the end; None when there is nothing yet."""
    try:
        return os.read(fd, CHUNK)
    except BlockingIOError:
        return None


def the_shell() -> str:
    for path in SHELLS:
        if os.access(path, os.X_OK):
            return path
    raise Failure(
        "command.missing",
        "The image has no shell.",
        "There is neither bash nor sh.",
        "Use an image with /bin/sh.",
    )


def not_started(error: OSError) -> Failure:
    return Failure("command.missing", "The command could not be started.", f"{error.strerror}.")


def living(group: int) -> bool:
    """Whether the group has a member that is more than a zombie (its parent may never reap it)."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return (
        any(map(alive_in(group), filter(str.isdigit, os.listdir("/proc"))))
        if os.path.isdir("/proc/1")
        else True
    )


def alive_in(group: int) -> Callable[[str], bool]:
    def alive(pid: str) -> bool:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                state, _, its_group = file.read().rpartition(b") ")[2].split()[:3]
        except OSError:
            return False
        return int(its_group) == group and state not in (b"Z", b"X")

    return alive


def hand_over_terminal(group: int) -> None:
    """At a terminal the command's group is the one in front, so that it can read
    and gets Ctrl-C.
    """
    if not os.isatty(0):
        return
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(0, group)
        os.killpg(group, signal.SIGCONT)
    except OSError:
        return


def exit_code(status: int) -> int:
    """As a shell tells it: 128 + n when signal n ended the command."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
