"""A job's folder: the files through which client, supervisor and job communicate, and their order.

    attempt      the attempt's identity; written before the folder gets its name
    command      the shell text
    log          the job's output, written by the job itself
    lock         held by the process that starts or supervises the attempt, and by the job
    supervisor   identity of the supervisor
    waiting      what the supervisor waits for, in words
    process      identity of the job's first process, written by itself before the command starts
    cancel       somebody canceled it; holds the grace in seconds, for supervisor and job
    exit         how it ended: appears complete, once, and never changes
    trouble      error output of a failing supervisor

Light on purpose, without pathlib: the supervisor imports it.
"""
# ruff: noqa: PTH104, PTH108, PTH110, PTH123

from __future__ import annotations

import fcntl
import os

from tao_sdk.transports.process import Identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    Name = Literal[
        "attempt", "command", "log", "lock", "supervisor", "waiting", "process", "cancel", "exit",
        "trouble"
    ]  # fmt: skip

LONGEST = 1 << 20  # the most characters to read of a file; the log has another reader
RESERVED = 4096  # bytes reserved for the exit record, so that a full disk cannot lose it


class Folder:
    """One attempt's folder, by path."""

    def __init__(self, path: str) -> None:
        self.path = path

    def file_path(self, name: Name) -> str:
        """The path of one of the files above."""
        return f"{self.path}/{name}"

    def read_text(self, name: Name) -> str:
        """The text of a file; "" while it is not there."""
        try:
            with open(self.file_path(name), encoding="utf-8", errors="replace") as file:
                return file.read(LONGEST)
        except FileNotFoundError:
            return ""

    def has_file(self, name: Name) -> bool:
        return os.path.exists(self.file_path(name))

    def put_file(self, name: Name, text: str) -> None:
        """Write a file that appears complete or not at all."""
        aside = f"{self.path}/.{name}.{os.getpid()}"
        create_file(aside, text.encode())
        os.rename(aside, self.file_path(name))

    def read_identity(self, name: Name) -> Identity | None:
        return Identity.parse(self.read_text(name))

    def reserve_exit(self) -> None:
        create_file(f"{self.path}/.exit", b" " * RESERVED)

    def record_exit(self, record: Mapping[str, object]) -> None:
        """Write the exit record. If there already is one, it stays."""
        import json

        aside = f"{self.path}/.exit.{os.getpid()}"
        try:  # noqa: SIM105  contextlib takes 4 ms to import
            os.rename(f"{self.path}/.exit", aside)
        except FileNotFoundError:
            pass
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(json.dumps(record).encode())
            file.flush()
            os.fsync(file.fileno())
        publish_file(aside, self.file_path("exit"))


def create_file(path: str, content: bytes) -> None:
    """Write a file that only its owner can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


def discard_file(path: str) -> None:
    """Remove a file if it is there."""
    try:  # noqa: SIM105  contextlib takes 4 ms to import
        os.unlink(path)
    except FileNotFoundError:
        pass


def publish_file(aside: str, path: str) -> None:
    """Give a finished file its name, unless the name is taken."""
    try:
        os.link(aside, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        if not os.path.exists(path):
            os.rename(aside, path)
            return
    os.unlink(aside)


def take_lock(path: str, kind: int = fcntl.LOCK_EX) -> int | None:
    """Lock a file, and return its descriptor. None if another process has the lock.

    The lock lasts as long as the descriptor, or a child's copy of it, stays open.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def is_taken(path: str) -> bool:
    """True if a process has the lock. False if there is no file.

    Processes that only look do not see each other.
    """
    try:
        fd = take_lock(path, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False
    if fd is not None:
        os.close(fd)
    return fd is None
