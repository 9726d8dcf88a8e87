"""Relay: pass on and save a running command's output, until all its processes have ended."""

from __future__ import annotations

import os
import select
import time

from tao_sdk.runner.outputs.ending import FAILED
from tao_sdk.runner.report import write_all
from tao_sdk.runner.trouble import unkept_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.runner.process import Command

CHUNK = 1 << 16
# seconds for a killed process to end; one that hangs in a dead file system never does
PATIENCE = 5.0
# reads that empty any pipe; without a limit, a daemon that left the group and still writes would
# hold up the job
DRAIN = 64
ENDED = 15  # the wait status of a process that SIGTERM ended: a shell, or a tee
PAUSE = 50  # milliseconds between two looks at the processes that the command left running


class Relay:
    """Passes on the output of a started command. `log`: a file that gets it too; -1 for none."""

    def __init__(self, command: Command, log: int) -> None:
        self.command, self.report, self.signals = command, command.report, command.signals
        self.pid, self.streams = command.pid, command.streams
        self.log = log
        self.status: int | None = None  # of waitpid
        self.codes: list[int] = []  # of orphans that ended after the request to end

    def run(self) -> int:
        """Wait for the command's whole process group. Return the wait status of the shell."""
        self.relay_output()
        self.clear_group()
        self.drain_pipes()
        self.signals.command_ended()
        assert self.status is not None
        return self.status

    def relay_output(self) -> None:
        """Pass bytes on until the shell has ended."""
        while self.status is None:
            self.relay_once(None)

    def relay_once(self, timeout: int | None) -> bool:
        """Wait for output or a signal, and process it. False if nothing came within `timeout`
        milliseconds; None waits without a limit.
        """
        poll = select.poll()
        for fd in (self.command.wake, *self.streams):
            poll.register(fd, select.POLLIN)
        ready = [fd for fd, _ in poll.poll(timeout)]
        for fd in ready:
            if fd == self.command.wake:
                self.reap_children()
            else:
                self.pass_on(fd)
        self.report.tell_queued()
        return bool(ready)

    def pass_on(self, fd: int) -> None:
        data = read_available(fd)
        if data is None:
            return
        if not data:
            os.close(fd)
            del self.streams[fd]
            return
        self.report.relay_bytes(self.streams[fd], data)
        if self.log >= 0 and not write_all(self.log, data):
            self.log = -1
            facts = unkept_log("The log is not kept any more.", "Its disk is full or gone.")
            self.report.queue_event("warning", **facts)

    def wake_up(self) -> None:
        """Wake a waiting `relay_once`, from any thread. A full pipe does that already."""
        try:
            os.write(self.command.alarm, b"\0")
        except BlockingIOError:
            return

    def reap_children(self) -> None:
        """Collect the exit statuses of ended children: the shell, and adopted orphans."""
        read_available(self.command.wake)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = status
            elif self.signals.first and status != ENDED:
                self.codes.append(exit_code(status))

    def clear_group(self) -> None:
        """End the processes that the command left running: ask them, and kill them after the grace
        period.
        """
        if has_living(self.pid):
            self.signals.end_command()
        latest = time.monotonic() + self.signals.command_grace() + PATIENCE
        while has_living(self.pid) and time.monotonic() < latest:
            self.relay_once(PAUSE)

    def judge_code(self) -> int:
        """The exit code by which files are judged. If the request to end ended the shell, it is the
        exit code of programs that outlived the shell.
        """
        self.reap_children()
        if self.status != ENDED or not self.codes:
            return exit_code(self.status or 0)
        if FAILED in self.codes:
            return FAILED
        return max(self.codes)

    def drain_pipes(self) -> None:
        """Pass on the output that ended processes left in the pipes, and remove the script."""
        for _ in range(DRAIN):
            if not (self.streams and self.relay_once(0)):
                break
        if self.command.script:
            os.unlink(self.command.script)


def read_available(fd: int) -> bytes | None:
    """The bytes available now; b"" at the end; None if there are none yet."""
    try:
        return os.read(fd, CHUNK)
    except BlockingIOError:
        return None


def has_living(group: int) -> bool:
    """True if the group has a member that is not a zombie (which its parent may never reap)."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    if not os.path.isdir("/proc/1"):
        return True
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                state, _, its_group = file.read().rpartition(b") ")[2].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state not in (b"Z", b"X"):
            return True
    return False


def exit_code(status: int) -> int:
    """The exit code as a shell has it: 128 + n if signal n ended the command."""
    if os.WTERMSIG(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)
