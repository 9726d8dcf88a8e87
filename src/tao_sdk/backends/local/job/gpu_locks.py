"""Locks on GPUs: one file per GPU, shared by all users of the machine.

A job's supervisor and the job itself hold the lock. A job takes all the GPUs it needs or none, so
that two waiting jobs cannot block each other. Light on purpose: the supervisor imports it.
"""

from __future__ import annotations

import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SHARED = "/run/lock"  # writable for every user, empty after a restart
LONGEST_NAME = 200
# O_NONBLOCK: opening a pipe that somebody has put there does not block
FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def lock_folder(own: str) -> str:
    """The folder of the locks: one for all users, else `own`."""
    return SHARED if os.access(SHARED, os.W_OK | os.X_OK) else own


def uuid_of(gpu: str) -> str:
    """The uuid in `index:uuid`. Only the uuid means the same GPU to everyone."""
    return gpu.rpartition(":")[2]


def lock_path(folder: str, gpu: str) -> str:
    return f"{folder}/tao-gpu-{uuid_of(gpu)}.lock"


def take_all(
    folder: str, gpus: Sequence[str], count: int, job: str
) -> tuple[dict[str, int], list[str]]:
    """Lock `count` of the GPUs.

    Returns (GPU -> descriptor of its lock, []), or ({}, the jobs that hold the other GPUs).
    """
    taken: dict[str, int] = {}
    holders: list[str] = []
    for gpu in gpus:
        if len(taken) == count:
            break
        fd = open_lock(lock_path(folder, gpu))
        if try_lock(fd):
            taken[gpu] = fd
        else:
            holders.append(lock_holder(fd))
            os.close(fd)
    if len(taken) < count:
        release_locks(taken)
        return {}, holders
    for fd in taken.values():
        sign_lock(fd, job)
    return taken, []


def held_by(folder: str, gpu: str) -> str:
    """The job that holds a GPU; "" if none does."""
    try:
        fd = os.open(lock_path(folder, gpu), os.O_RDONLY | FLAGS)
    except OSError:
        return ""
    try:
        return "" if try_lock(fd, fcntl.LOCK_SH) else lock_holder(fd)
    finally:
        os.close(fd)


def release_locks(taken: dict[str, int]) -> None:
    """Free the locks, even if a process that outlives the job has copies of the descriptors."""
    for fd in taken.values():
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def try_lock(fd: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def open_lock(path: str) -> int:
    """Open a lock file, or create it. Also works for another user's file.

    First without O_CREAT, which a sticky folder refuses for another user's file. Read-only if it is
    not writable.
    """
    while True:
        try:
            return os.open(path, os.O_RDWR | FLAGS)
        except FileNotFoundError:
            pass
        except PermissionError:
            return os.open(path, os.O_RDONLY | FLAGS)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | FLAGS, 0o666)
        except FileExistsError:
            continue
        os.fchmod(fd, 0o666)
        return fd


def sign_lock(fd: int, job: str) -> None:
    """Write the job's name into its lock file, if we may write there."""
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, job.encode()[:LONGEST_NAME], 0)
    except OSError:
        return


def lock_holder(fd: int) -> str:
    try:
        return os.pread(fd, LONGEST_NAME, 0).decode("utf-8", "replace").strip() or "someone else"
    except OSError:  # not a plain file, for example a pipe
        return "someone else"
