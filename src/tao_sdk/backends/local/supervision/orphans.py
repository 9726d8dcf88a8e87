"""Orphans: the programs of a job that outlive the shell which waited for them.

SIGTERM kills the shell, while its program may save its files and end well. Then the program's own
exit code tells if its files are complete, and not the shell's 143.
Light on purpose: the supervisor imports it.
"""

from __future__ import annotations

import os
import signal

from tao_sdk.runner.outputs.ending import FAILED
from tao_sdk.transports.process import find_children, running_one_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.transports.process import Identity

# programs that wait for others and write no checkpoints: their end by SIGTERM says nothing
WAITING_PROGRAMS = frozenset({"bash", "dash", "sh", "ksh", "zsh", "tee"})
FIRST_SIGNAL_CODE = 128  # a shell's code for a child that signal n has ended is 128 + n
KILLED = FIRST_SIGNAL_CODE + signal.SIGKILL


class Awaited:
    """The programs that a job's shells wait for, at the moment when the job is asked to end."""

    def __init__(self, leader: Identity) -> None:
        self.leader = leader.pid
        self.shells = running_one_of(leader, WAITING_PROGRAMS)
        self.programs = find_children(self.shells) - self.shells

    def shell_died(self, status: int) -> bool:
        """True if the leader's wait status says that SIGTERM ended its shell.

        A leader that is no shell, such as the runner, ends with the code of the shell that it
        started.
        """
        if died_of_sigterm(status):
            return True
        passed_on = exit_code_of(status) == FIRST_SIGNAL_CODE + signal.SIGTERM
        return passed_on and self.leader not in self.shells

    def exit_code(self) -> int | None:
        """The exit code of the programs: KILLED or FAILED if one has it, else the highest.

        None if another signal than SIGKILL ended one, or if the end of one is not known. The end is
        not known if the shell itself saw it before the shell died.
        """
        codes = {
            pid: exit_code_of(status)
            for pid, status in ended_children().items()
            if pid not in self.shells
        }
        if not self.programs or not self.programs <= codes.keys():
            return None
        own_codes = [codes[pid] for pid in self.programs]
        if KILLED in own_codes:
            return KILLED
        if max(codes.values()) >= FIRST_SIGNAL_CODE:
            return None
        return FAILED if FAILED in own_codes else max(own_codes)


def ended_children() -> dict[int, int]:
    """Process -> wait status, for all our children that have ended."""
    statuses: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return statuses
        if pid == 0:
            return statuses
        statuses[pid] = status


def exit_code_of(status: int) -> int:
    """The exit code as in a shell: 128 + n if signal n ended the process."""
    if os.WIFSIGNALED(status):
        return FIRST_SIGNAL_CODE + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


def died_of_sigterm(status: int) -> bool:
    """True for the wait status of a process that SIGTERM has ended."""
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM
