"""Log copies: the copy of an attempt's log, for when the backend has lost it.

A copy has a cap. It is stored in segments of a quarter of the cap: the first and the newest three
stay. So the log's start and its end are there, and one line between them says how many bytes are
missing. Offsets count the bytes of the copy, including that line. One process at a time appends or
compresses (the holder of the lease of the job's log, engine/drain.py). Once a job is over, its
segments are compressed (log_segments.py). Bytes that are appended later begin a new segment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from tao_sdk.model.plan import Attempt
from tao_sdk.store.log_segments import ASIDE, GZ, compress, read_segment, size_of
from tao_sdk.store.private_files import explained, make_directory, name_in

CAP = 256 * 1024 * 1024  # bytes per attempt and rank
NEWEST_KEPT = 3  # segments besides the first
SMALL = 4096  # bytes; a smaller segment would take no less disk if compressed

T = TypeVar("T")


class Part(NamedTuple):
    """Consecutive bytes of the copy: a segment's file, or the line in place of missing bytes."""

    size: int
    path: Path | None = None
    line: bytes = b""

    def read(self, offset: int, limit: int) -> bytes:
        if self.path is None:
            return self.line[offset : offset + limit]
        return read_segment(self.path, offset, limit)


class LogCopies:
    """The copies of one store's logs: `<job>/<attempt>.<rank>.<segment>`."""

    def __init__(self, directory: Path, cap: int = CAP) -> None:
        self.directory = directory
        self.segment_size = max(1, cap // (NEWEST_KEPT + 1))

    def append(self, attempt: Attempt, data: bytes, rank: int = 0) -> None:
        """Add bytes at the end of a copy. Raises StoreError."""
        make_directory(self.directory)
        make_directory(self._job_folder(attempt.job_id))
        with explained(self.directory):
            while data:
                number, room = self._segment_to_write(attempt, rank)
                _append(self._segment_path(attempt, rank, number), data[:room])
                data = data[room:]

    def size(self, attempt: Attempt, rank: int = 0) -> int:
        """The number of bytes that `read` can return."""
        with explained(self.directory):
            return retry_if_replaced(
                lambda: sum(part.size for part in self._list_parts(attempt, rank))
            )

    def read(
        self, attempt: Attempt, offset: int = 0, limit: int = 1024 * 1024, rank: int = 0
    ) -> bytes:
        """Return at most `limit` bytes from `offset` on. It may be fewer, but until the end it is
        at least one.
        """
        with explained(self.directory):
            return retry_if_replaced(lambda: self._read(attempt, offset, limit, rank))

    def _read(self, attempt: Attempt, offset: int, limit: int, rank: int) -> bytes:
        for part in self._list_parts(attempt, rank):
            if offset < part.size:
                return part.read(offset, limit)
            offset -= part.size
        return b""

    def compress(self, job_id: str) -> None:
        """Compress the copies of a job that is over. Raises StoreError."""
        job = self._job_folder(job_id)
        with explained(self.directory):
            if not job.is_dir():
                return
            for path in list(job.iterdir()):
                if is_plain(path) and path.stat().st_size > SMALL:
                    compress(path)

    def forget(self, job_id: str) -> None:
        path = self._job_folder(job_id)
        with explained(path):
            if path.is_dir():
                import shutil

                shutil.rmtree(path)

    def jobs(self) -> list[str]:
        """The ids of the jobs that have copies here."""
        with explained(self.directory):
            if not self.directory.is_dir():
                return []
            return sorted(path.name for path in self.directory.iterdir())

    def _segment_to_write(self, attempt: Attempt, rank: int) -> tuple[int, int]:
        """Return (the segment to write to, its room). When a new one begins, remove the oldest but
        the first.
        """
        segments = self._find_segments(attempt, rank)
        if not segments:
            return 0, self.segment_size
        numbers = sorted(segments)
        newest = segments[numbers[-1]]
        room = 0 if newest.suffix == GZ else self.segment_size - newest.stat().st_size
        if room > 0:
            return numbers[-1], room
        for number in numbers[1 : 1 - NEWEST_KEPT]:
            segments[number].unlink(missing_ok=True)
        return numbers[-1] + 1, self.segment_size

    def _list_parts(self, attempt: Attempt, rank: int) -> Iterator[Part]:
        expected = 0
        for number, path in sorted(self._find_segments(attempt, rank).items()):
            if number > expected:
                yield _gap_line((number - expected) * self.segment_size)
            yield Part(size_of(path), path)
            expected = number + 1

    def _find_segments(self, attempt: Attempt, rank: int) -> dict[int, Path]:
        """The segments by number. The plain file counts if a compression was cut short before it
        removed that.
        """
        start = f"{attempt.number}.{rank}."
        job = self._job_folder(attempt.job_id)
        if not job.is_dir():
            return {}
        plain_last = sorted(job.glob(f"{start}*"), key=is_plain)
        return {int(path.name.removeprefix(start).removesuffix(GZ)): path for path in plain_last}

    def _job_folder(self, job_id: str) -> Path:
        return name_in(self.directory, job_id)

    def _segment_path(self, attempt: Attempt, rank: int, number: int) -> Path:
        return self._job_folder(attempt.job_id) / f"{attempt.number}.{rank}.{number}"


def is_plain(path: Path) -> bool:
    return path.suffix != GZ and not path.name.startswith(ASIDE)


def retry_if_replaced(look: Callable[[], T]) -> T:
    """Return the result of `look`, tried again if a segment was compressed before it was opened."""
    for _ in range(NEWEST_KEPT + 1):
        try:
            return look()
        except FileNotFoundError:
            continue
    return look()


def _gap_line(size: int) -> Part:
    line = f"\n[tao: {size} bytes of the log are not kept here]\n".encode()
    return Part(len(line), line=line)


def _append(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
        file.write(data)
