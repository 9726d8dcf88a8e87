"""The line of jobs that wait for GPUs: first come, first served, among all users of the machine.

Each job has a ticket from its submit until it has its GPUs: a file beside the locks (gpu_locks.py)
whose name sorts by time, which holds the job and the GPUs that it may take, and which its
supervisor has locked. The ticket of a supervisor that was killed is locked no more: it counts for
nothing. Light on purpose: the supervisor imports it.
"""
# ruff: noqa: PTH104, PTH108, PTH208

from __future__ import annotations

import fcntl
import os
import time

from tao_sdk.backends.local.job.gpu_locks import FLAGS, LONGEST_NAME, try_lock, uuid_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX = "tao-gpu-line-"
LONGEST_TICKET = 64 * 1024  # bytes


class Ticket:
    """The place in the line of the job of this process. Where no file can be written it holds up
    nobody, and those before it still come first.
    """

    def __init__(self, folder: str, gpus: Sequence[str], job: str) -> None:
        self.folder = folder
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)  # the same for every process
        self.name = f"{PREFIX}{now:020d}-{os.getpid()}"
        try:
            self._fd = write_ticket(folder, self.name, "\n".join([job, *map(uuid_of, gpus)]))
        except OSError:
            self._fd = -1

    def allowed_gpus(self, gpus: Sequence[str], count: int) -> tuple[list[str], list[str]]:
        """(those of the GPUs that no job before this one waits for, the jobs that wait for others).

        Fewer than `count` GPUs are enough of an answer: the jobs further on are not asked.
        """
        allowed, ahead = list(gpus), list[str]()
        for name in self._names_before():
            if len(allowed) < count:
                break
            job, wanted = read_ticket(self.folder, name)
            if not wanted.isdisjoint(map(uuid_of, allowed)):
                allowed = [gpu for gpu in allowed if uuid_of(gpu) not in wanted]
                ahead.append(job)
        return allowed, ahead

    def _names_before(self) -> list[str]:
        """The tickets that are older than this one, oldest first."""
        try:
            names = os.listdir(self.folder)
        except OSError:
            return []
        return sorted(name for name in names if PREFIX <= name < self.name)

    def give_back(self) -> None:
        """Leave the line."""
        if self._fd == -1:
            return
        discard_ticket(self.folder, self.name)
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        os.close(self._fd)
        self._fd = -1


def write_ticket(folder: str, name: str, text: str) -> int:
    """A locked file that has its name once it is whole; its descriptor. Raises OSError."""
    aside = f"{folder}/.{name}"
    fd = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | FLAGS, 0o644)
    try:
        os.fchmod(fd, 0o644)  # everyone may see whether it is locked
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, text.encode())
        os.rename(aside, f"{folder}/{name}")
    except OSError:
        os.close(fd)
        discard_ticket(folder, f".{name}")
        raise
    return fd


def read_ticket(folder: str, name: str) -> tuple[str, frozenset[str]]:
    """(the job, the GPUs that it may take); no GPUs for a ticket of a job that waits no more."""
    try:
        fd = os.open(f"{folder}/{name}", os.O_RDONLY | FLAGS)
    except OSError:
        return "", frozenset()
    try:
        if try_lock(fd, fcntl.LOCK_SH):
            discard_ticket(folder, name)
            return "", frozenset()
        job, *wanted = os.pread(fd, LONGEST_TICKET, 0).decode("utf-8", "replace").split("\n")
    except OSError:  # no file, a pipe for one
        return "", frozenset()
    else:
        return job[:LONGEST_NAME], frozenset(wanted)
    finally:
        os.close(fd)


def discard_ticket(folder: str, name: str) -> None:
    """That of another user stays: it counts for nothing."""
    try:  # noqa: SIM105  contextlib takes 4 ms to import
        os.unlink(f"{folder}/{name}")
    except OSError:
        pass
