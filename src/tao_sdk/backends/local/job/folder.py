"""A job's folder: the files through which client, supervisor and job know about each other, and the
order they trust.

    attempt      whose it is; written before the folder gets its name
    command      the shell text
    log          what the job prints, written by the job itself
    lock         held by whoever starts or supervises the attempt, and by the job
    supervisor   identity of the supervisor
    waiting      what the supervisor waits for, in words
    process      identity of the job's first process, written by itself before the command starts
    cancel       someone wants it ended; holds the grace in seconds, for supervisor and job
    exit         how it ended: appears whole, once, and never changes
    trouble      what a failing supervisor said

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

LONGEST = 1 << 20  # characters of one that are read; the log, which may be longer, is not read so
RESERVED = 4096  # bytes kept for the exit record, so that a full disk cannot lose it


class Folder:
    """One attempt's folder, by path."""

    def __init__(self, path: str) -> None:
        self.path = path

    def file_path(self, name: Name) -> str:
        """The path of one of the files above."""
        return f"{self.path}/{name}"

    def read_text(self, name: Name) -> str:
        """What a file holds; "" while it is not there."""
        try:
            with open(self.file_path(name), encoding="utf-8", errors="replace") as file:
                return file.read(LONGEST)
        except FileNotFoundError:
            return ""

    def has_file(self, name: Name) -> bool:
        return os.path.exists(self.file_path(name))

    def put_file(self, name: Name, text: str) -> None:
        """A file that appears whole or not at all."""
        aside = f"{self.path}/.{name}.{os.getpid()}"
        create_file(aside, text.encode())
        os.rename(aside, self.file_path(name))

    def read_identity(self, name: Name) -> Identity | None:
        return Identity.parse(self.read_text(name))

    def reserve_exit(self) -> None:
        create_file(f"{self.path}/.exit", b" " * RESERVED)

    def record_exit(self, record: Mapping[str, object]) -> None:
        """Write down how it ended; whoever was first is right."""
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
    """A new file that only its owner can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


def discard_file(path: str) -> None:
    """A file that need not be there any more, or at all."""
    try:  # noqa: SIM105  contextlib takes 4 ms to import
        os.unlink(path)
    except FileNotFoundError:
        pass


def publish_file(aside: str, path: str) -> None:
    """Give a finished file its name, unless that is taken."""
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
    """Lock a file for as long as the descriptor, or a child's copy of it, stays open. None when
    someone has it.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def is_taken(path: str) -> bool:
    """Whether someone has the lock. Those who only look do not see each other. Where there is no
    file, nobody has it.
    """
    try:
        fd = take_lock(path, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False
    if fd is not None:
        os.close(fd)
    return fd is None
