"""The line of jobs that wait for GPUs: first come, first served, among all users of the machine.

Each job has a ticket from its submit until it has its GPUs. A ticket is a file beside the locks
(gpu_locks.py). Its name sorts by time, and it holds the job and the GPUs that the job may take. The
supervisor keeps it locked. If the supervisor is killed, the lock is gone and the ticket no longer
counts. Light on purpose: the supervisor imports it.
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
    """The place of this process's job in the line.

    If its file cannot be written, it holds up nobody, and earlier jobs still come first.
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
        """Return (the GPUs that no earlier job waits for, the earlier jobs that hold GPUs back).

        Stops as soon as fewer than `count` GPUs are left: the rest of the line does not matter.
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
        """The names of the tickets older than this one, oldest first."""
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
    """Write a locked file and return its descriptor. Raises OSError.

    The file gets its name once it is complete.
    """
    aside = f"{folder}/.{name}"
    fd = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | FLAGS, 0o644)
    try:
        os.fchmod(fd, 0o644)  # everyone may check its lock
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, text.encode())
        os.rename(aside, f"{folder}/{name}")
    except OSError:
        os.close(fd)
        discard_ticket(folder, f".{name}")
        raise
    return fd


def read_ticket(folder: str, name: str) -> tuple[str, frozenset[str]]:
    """Return (the job, the GPUs that it may take). No GPUs if the job no longer waits."""
    try:
        fd = os.open(f"{folder}/{name}", os.O_RDONLY | FLAGS)
    except OSError:
        return "", frozenset()
    try:
        if try_lock(fd, fcntl.LOCK_SH):
            discard_ticket(folder, name)
            return "", frozenset()
        job, *wanted = os.pread(fd, LONGEST_TICKET, 0).decode("utf-8", "replace").split("\n")
    except OSError:  # not a plain file, for example a pipe
        return "", frozenset()
    else:
        return job[:LONGEST_NAME], frozenset(wanted)
    finally:
        os.close(fd)


def discard_ticket(folder: str, name: str) -> None:
    """Remove a ticket. Another user's ticket stays; without its lock it does not count."""
    try:  # noqa: SIM105  contextlib takes 4 ms to import
        os.unlink(f"{folder}/{name}")
    except OSError:
        pass
