"""Kept logs: copies of logs whose pods are about to go, in files of ours.

Each line has its time before it, so that a cursor of the API's log goes on in the copy. A copy is
`.part` until nothing more can come to it, and `.log` from then on. Who writes it holds its lock. A
line without a time is our own: it says that lines may be missing here.
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

MOST = 256 * MiB  # of one copy
FULL = b"tao: the rest of this log was too long to be kept\n"
BROKEN = b"tao: the copy of this log broke off here; lines after this one may be missing\n"
AWAY_SECONDS = 300.0  # without an answer of the API, after which a copy is given up
LONGEST_PAUSE = 5.0  # seconds between two questions that were refused
WRITER_SECONDS = 10.0  # for another who writes a copy to finish it
OVER_SECONDS = 15.0  # for who ends a pod to see it gone: that is a question less
LOCK_PAUSE = 0.1  # seconds between two tries to get a lock


class KeptLogs:
    """The copies of one cluster's logs. `folder` is this backend's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, uid: str, rank: int) -> Path:
        """The file of a copy to which nothing more comes."""
        return self.folder / f"{uid[:64]}-{rank}.log"

    def is_whole(self, uid: str, rank: int) -> bool:
        """True for a copy to which nothing more comes."""
        return self.path(uid, rank).is_file()

    def has(self, uid: str, rank: int) -> bool:
        """True if something of a log is kept."""
        with suppress(FileNotFoundError):
            return part_of(self.path(uid, rank)).stat().st_size > 0
        return self.is_whole(uid, rank)

    def begin(
        self, kube: Kube, pod: Object, uid: str, gone: threading.Event | None = None
    ) -> LogCopy:
        """Follow a pod's log to its end, in a thread of its own. `gone` is set by who has seen that
        the pod is gone.
        """
        make_folders(self.folder)
        copy = LogCopy(kube, pod, self.path(uid, parse.rank_of(pod)), gone)
        copy.start()
        return copy

    def finish(self, uid: str, rank: int, seconds: float = WRITER_SECONDS) -> bool:
        """True if something of a log is kept whose pod is gone. `seconds`: how long one who still
        writes it is waited for.
        """
        path = self.path(uid, rank)
        with suppress(OSError), locked_part(path, seconds) as file:
            close_copy(file, path, BROKEN)
        return self.has(uid, rank)

    def read(self, uid: str, rank: int, request: LogRequest) -> Iterator[LogChunk]:
        """From the cursor on, or the last lines."""
        position = Position.parse(request.cursor)
        lines, since = CopiedLines(position), position.since.encode()
        for block in blocks_since(self._open(uid, rank), since, request.tail):
            if new := lines.feed(block):
                yield LogChunk(new, position.cursor)
        if new := lines.close():
            yield LogChunk(new, position.cursor)

    def _open(self, uid: str, rank: int) -> BinaryIO:
        """The copy, also if it is finished just now."""
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
        """When the first line of a copy was written."""
        with self._open(uid, rank) as file:
            return moment_of(time_of(file.readline(100)))


class CopiedLines(Lines):
    """The lines of a copy. Our own come with the line after them."""

    def _take_untimed(self, line: bytes) -> None:
        self.notice = line + b"\n"


# Writing


class LogCopy(threading.Thread):
    """Copies a pod's log until its container has ended. `began` is set once the API sends it.

    What breaks is asked for again, from the last line of the copy on.
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
                return  # another has finished it
            self._copy(file)

    def _note_answer(self) -> None:
        self.began.set()
        self.answered_at = time.monotonic()

    def _copy(self, file: BinaryIO) -> None:
        """A copy that is given up, because the API does not answer, stays a part."""
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
        """Copy what one answer of the API has. True if that was the rest of the log."""
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
    """What comes behind the position, until the log ends or is silent. Raises TaoError."""
    with told_as_broken():
        for chunk in log.read_once(position, follow=True):
            yield chunk.data


# Files


def part_of(path: Path) -> Path:
    """The file of a copy that still grows, or that nobody has finished."""
    return path.with_suffix(".part")


@contextmanager
def locked_part(path: Path, seconds: float, create: bool = False) -> Generator[BinaryIO]:
    """The part of a copy, which nobody else writes meanwhile.

    Raises OSError where there is none (any more), and if another still writes it after `seconds`.
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
    """Raises BlockingIOError if another still holds the lock after that time."""
    give_up = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up:
                raise
        time.sleep(LOCK_PAUSE)


def last_position(file: BinaryIO) -> Position:
    """How far the log was copied. A last line without its end is cut off: it is copied anew."""
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
    """Nothing more comes to this copy, which is not whole, as a last line says. An empty one goes:
    it would say that the log was empty.
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
    """The lines of a copy that were written at that second or later, each with those of our own
    before it; of a tail the last ones.
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
