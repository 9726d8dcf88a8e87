"""Kept logs: local copies of logs whose pods are about to be deleted.

Each line starts with its time, so that a cursor of the API's log continues in the copy. A copy is
named `.part` until it is complete, and `.log` from then on. Its writer holds its lock. A line
without a time is our own: it says that lines may be missing there.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tao_sdk.backends.contract import LogChunk, LogRequest, MiB
from tao_sdk.backends.kubernetes import parse
from tao_sdk.backends.kubernetes.look import core_path, get
from tao_sdk.backends.kubernetes.parse import Object
from tao_sdk.backends.kubernetes.pods.logs import (
    PAUSE,
    STAMP,
    TIME,
    Lines,
    PodLog,
    Position,
    moment_of,
    time_of,
    told_as_broken,
    zone_of,
)
from tao_sdk.backends.log_tail import find_tail_of_file
from tao_sdk.model.errors import PathNotFound, TaoError
from tao_sdk.store.private_files import make_folders
from tao_sdk.transports.kube import Kube

MOST = 256 * MiB  # size of one copy
FULL = b"tao: the rest of this log was too long to be kept\n"
BROKEN = b"tao: the copy of this log broke off here; lines after this one may be missing\n"
AWAY_SECONDS = 300.0  # without an answer of the API; then the copy is given up
LONGEST_PAUSE = 5.0  # seconds between two refused requests
WRITER_SECONDS = 10.0  # for another writer to finish a copy
OVER_SECONDS = 15.0  # for the thread that ends a pod to see it gone, which saves a query
LOCK_PAUSE = 0.1  # seconds between two tries to get a lock


class KeptLogs:
    """The copies of one cluster's logs. `folder` is this backend's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, uid: str, rank: int) -> Path:
        """The path of a finished copy."""
        return self.folder / f"{uid[:64]}-{rank}.log"

    def is_whole(self, uid: str, rank: int) -> bool:
        """True if the copy is finished."""
        return self.path(uid, rank).is_file()

    def has(self, uid: str, rank: int) -> bool:
        """True if there is a copy of any part of the log."""
        with suppress(FileNotFoundError):
            return part_of(self.path(uid, rank)).stat().st_size > 0
        return self.is_whole(uid, rank)

    def begin(
        self, kube: Kube, pod: Object, uid: str, gone: threading.Event | None = None
    ) -> LogCopy:
        """Copy a pod's log to its end, in a new thread. The caller sets `gone` once it sees that
        the pod is gone.
        """
        make_folders(self.folder)
        copy = LogCopy(kube, pod, self.path(uid, parse.rank_of(pod)), gone)
        copy.start()
        return copy

    def finish(self, uid: str, rank: int, seconds: float = WRITER_SECONDS) -> bool:
        """Finish the copy of a log whose pod is gone. True if there is a copy of any part of it.
        `seconds`: how long to wait for another writer.
        """
        path = self.path(uid, rank)
        with suppress(OSError), locked_part(path, seconds) as file:
            close_copy(file, path, BROKEN)
        return self.has(uid, rank)

    def read(self, uid: str, rank: int, request: LogRequest) -> Iterator[LogChunk]:
        """Read a copy from the cursor on, or its last lines."""
        position = Position.parse(request.cursor)
        lines, since = CopiedLines(position), position.since.encode()
        for block in blocks_since(self._open(uid, rank), since, request.tail):
            if new := lines.feed(block):
                yield LogChunk(new, position.cursor)
        if new := lines.close():
            yield LogChunk(new, position.cursor)

    def _open(self, uid: str, rank: int) -> BinaryIO:
        """Open the copy, finished or not. It may be renamed at this moment, so try `.log` twice."""
        path = self.path(uid, rank)
        with suppress(FileNotFoundError):
            return path.open("rb")
        with suppress(FileNotFoundError):
            return part_of(path).open("rb")
        return path.open("rb")

    def forget(self, uid: str) -> None:
        for path in self.folder.glob(f"{uid[:64]}-*"):
            path.unlink(missing_ok=True)

    def first_moment(self, uid: str, rank: int) -> datetime | None:
        """The time of the first line of a copy."""
        with self._open(uid, rank) as file:
            return moment_of(time_of(file.readline(100)))


class CopiedLines(Lines):
    """The lines of a copy. Our own line comes together with the line after it."""

    def _take_untimed(self, line: bytes) -> None:
        self.notice = line + b"\n"


# Writing


class LogCopy(threading.Thread):
    """Copies a pod's log until its container has ended. `began` is set once the API sends it.

    After a broken answer, the thread asks again from the last line of the copy on.
    """

    def __init__(
        self, kube: Kube, pod: Object, path: Path, gone: threading.Event | None = None
    ) -> None:
        super().__init__(name="tao-kept-log", daemon=True)
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self.log = PodLog(
            kube,
            namespace,
            name,
            partial(has_ended, kube, core_path(namespace, "pods", name)),
            parse.rank_of(pod),
            stamped=True,
            on_answer=self._note_answer,
        )
        self.path = path
        self.began = threading.Event()
        self.answered_at = time.monotonic()
        self.gone = gone

    def run(self) -> None:
        with suppress(OSError), locked_part(self.path, AWAY_SECONDS, create=True) as file:
            if self.path.is_file():
                return  # another writer has finished it
            self._copy(file)

    def _note_answer(self) -> None:
        self.began.set()
        self.answered_at = time.monotonic()

    def _copy(self, file: BinaryIO) -> None:
        """Copy until the log ends. If the API does not answer for AWAY_SECONDS, give up, and the
        copy stays a `.part`.
        """
        position, pause = last_position(file), PAUSE
        while time.monotonic() - self.answered_at < AWAY_SECONDS:
            before = self.answered_at
            try:
                if self._copy_once(file, position):
                    return
            except PathNotFound:
                return close_copy(file, self.path, BROKEN)
            except TaoError:
                pause = PAUSE if self.answered_at > before else min(2 * pause, LONGEST_PAUSE)
            time.sleep(pause)

    def _copy_once(self, file: BinaryIO, position: Position) -> bool:
        """Copy one answer of the API. True if that was the rest of the log, or the copy is full."""
        for data in read_on(self.log, position):
            self._note_answer()
            file.write(data)
            file.flush()
            if file.tell() >= MOST:
                close_copy(file, self.path, FULL)
                return True
        is_gone = self.gone is not None and self.gone.wait(OVER_SECONDS)
        if not is_gone and not self.log.has_ended():
            return False
        part_of(self.path).replace(self.path)
        return True


def has_ended(kube: Kube, path: str) -> bool:
    """True if the pod at this path has ended, or is gone."""
    pod = get(kube, path)
    return pod is None or bool(parse.terminated(pod))


def read_on(log: PodLog, position: Position) -> Iterator[bytes]:
    """The log after the position, until it ends or is silent. Raises TaoError."""
    with told_as_broken():
        for chunk in log.read_once(position, follow=True):
            yield chunk.data


# Files


def part_of(path: Path) -> Path:
    """The path of a copy that still grows, or that nobody has finished."""
    return path.with_suffix(".part")


@contextmanager
def locked_part(path: Path, seconds: float, create: bool = False) -> Generator[BinaryIO]:
    """Open the `.part` of a copy with its write lock held.

    Raises OSError if there is no `.part` (any more), or another writer still holds the lock after
    `seconds`.
    """
    part, flags = part_of(path), os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
    descriptor = os.open(part, flags | (os.O_CREAT if create else 0), 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        wait_for_lock(descriptor, seconds)
        if not os.path.samestat(part.stat(), os.fstat(descriptor)):
            raise FileNotFoundError(f"{part} was replaced")
        file.seek(0, os.SEEK_END)
        yield file


def wait_for_lock(descriptor: int, seconds: float) -> None:
    """Take the lock. Raises BlockingIOError if another still holds it after `seconds`."""
    give_up = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up:
                raise
        time.sleep(LOCK_PAUSE)


def last_position(file: BinaryIO) -> Position:
    """The position up to which the log was copied. Cut off an unfinished last line, to copy it
    again.
    """
    position = Position()
    lines, whole = CopiedLines(position), 0
    file.seek(0)
    for line in file:
        if line.endswith(b"\n"):
            lines.feed(line)
            whole += len(line)
    file.truncate(whole)
    file.seek(0, os.SEEK_END)
    return position


def close_copy(file: BinaryIO, path: Path, words: bytes) -> None:
    """Finish an incomplete copy, with a last line `words` that says so. Remove an empty copy: it
    would look like an empty log.
    """
    part, time = part_of(path), last_time(file)
    if not time:
        return part.unlink()
    file.seek(-1, os.SEEK_END)
    newline = b"" if file.read(1) == b"\n" else b"\n"
    stamp = f"{time[:STAMP]}.999999999{zone_of(time)} "
    file.write(newline + stamp.encode() + words)
    file.flush()
    part.replace(path)


def last_time(file: BinaryIO) -> str:
    """The time before the last line of the log; "" for an empty copy."""
    file.seek(find_tail_of_file(file.fileno(), 2))
    timed = [line for line in file if TIME.match(line)]
    return time_of(timed[-1]) if timed else ""


def blocks_since(file: BinaryIO, since: bytes, tail: int | None) -> Iterator[bytes]:
    """The lines of a copy from the second `since` on, each with our own line before it; with
    `tail`, only among the last lines.
    """
    own = b""
    with file:
        if tail is not None:
            file.seek(find_tail_of_file(file.fileno(), tail))
        for line in file:
            if not TIME.match(line):
                own = line
                continue
            if line[:STAMP] >= since:
                yield own + line
            own = b""
