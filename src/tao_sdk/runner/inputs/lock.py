"""A lock for everything that shares a folder: processes, ranks and jobs, on one node or on many.

It uses exclusively created files, which NFS and Lustre support as well as a local disk; flock they
may not. The holder touches its file while it lives. A waiting process compares the time of that
touch with now, both by the clock of the file system. If the holder is dead, it creates the file
with the next number, and only one process can.

Two processes may hold the lock for a moment, if one was asleep for longer than DEAD. So work under
the lock must allow that: write complete data under temporary names, and rename once at the end.
"""

from __future__ import annotations

import os
import threading
import time

from tao_sdk.net import atomic
from tao_sdk.net.crew import start_thread
from tao_sdk.runner import private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BEAT = 2.0  # seconds between touches
DEAD = 20.0  # seconds without a touch
# seconds between looks of a waiting process, at first and later: a thousand ranks may wait
LOOK, RARELY = 0.1, 2.0
PREFIX = "lock."
LONGEST = 10  # digits of a number
MOST = 1000  # bytes of a lock's file


class Lock:
    """The lock of one folder."""

    def __init__(self, folder: str) -> None:
        self.folder, self.number = folder, 0
        self.over = threading.Event()
        self.thread: threading.Thread | None = None

    def acquire(self, ready: Callable[[], bool], waits: Callable[[], None]) -> bool:
        """Wait for the lock. True once it is ours; False as soon as `ready()`: it is not needed
        then. Calls `waits` once if it has to wait.
        """
        is_told, pause = False, LOOK
        while not ready():
            number = self.newest_number()
            if (not number or self.is_dead(number)) and self.create_file(number + 1):
                self.thread = start_thread(self.keep_touching)
                return True
            if not is_told:
                is_told = True
                waits()
            time.sleep(pause)
            pause = min(RARELY, pause * 1.5)
        return False

    def lock_path(self, number: int) -> str:
        return os.path.join(self.folder, f"{PREFIX}{number}")

    def newest_number(self) -> int:
        """The number of the present lock; 0 if there is none."""
        return max(self.lock_numbers(), default=0)

    def lock_numbers(self) -> list[int]:
        names = [name[len(PREFIX) :] for name in os.listdir(self.folder) if name.startswith(PREFIX)]
        return [
            int(name) for name in names if name.isascii() and name.isdigit() and len(name) < LONGEST
        ]

    def create_file(self, number: int) -> bool:
        try:
            fd = os.open(
                self.lock_path(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644
            )
        except FileExistsError:
            return False
        with open(fd, "w") as file:
            file.write(" ".join(process_identity(os.getpid())))
        self.number = number
        return True

    def is_dead(self, number: int) -> bool:
        """True if the holder of a lock is dead. On this machine that is known at once; elsewhere a
        holder counts as dead after DEAD seconds without a touch.
        """
        path = self.lock_path(number)
        try:
            # opening the file makes NFS refresh its time
            holder = private.read_file(path, MOST).decode("ascii", "replace").split()
            touched = os.stat(path).st_mtime
        except OSError as error:
            return error.errno in private.NOT_OURS
        if len(holder) == 4 and tuple(holder[:2]) == process_identity(0)[:2] and is_pid(holder[2]):
            identity = process_identity(int(holder[2]))
            if identity[3]:
                return identity != tuple(holder)
        return atomic.file_system_time(self.folder) - touched > DEAD

    def keep_touching(self) -> None:
        while not self.over.wait(BEAT):
            try:
                os.utime(self.lock_path(self.number))
            except OSError:
                # the file system is away for a moment; if it stays away, we count as dead
                continue

    def release(self) -> None:
        """Release the lock: remove its file and those with lower numbers."""
        self.over.set()
        if self.thread:
            self.thread.join()
        for number in sorted(self.lock_numbers(), reverse=True):
            if number <= self.number:
                self.remove_lock(number)

    def remove_lock(self, number: int) -> None:
        try:
            os.unlink(self.lock_path(number))
        except OSError:
            return


def is_pid(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < LONGEST


def process_identity(pid: int) -> tuple[str, ...]:
    """(boot id, process namespace, pid, start time of the process). No two processes ever have the
    same identity.
    """
    return boot_id(), pid_namespace(), str(pid), start_time(pid)


def boot_id() -> str:
    """The id of this boot of this machine; another after each boot."""
    return read_text("/proc/sys/kernel/random/boot_id")


def pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return f"?{os.urandom(6).hex()}"  # unknown, so never the same as another's


def start_time(pid: int) -> str:
    """The start time of a process, in clock ticks; "-" if it does not exist or is a zombie. "" for
    another user's process that /proc hides (hidepid).
    """
    fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) > 19:
        if fields[0] != "Z":
            return fields[19]
        return "-"
    try:
        os.kill(pid, 0)
    except OSError as error:
        if isinstance(error, PermissionError):
            return ""
        return "-"
    return "-"


def read_text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return "-"
