"""Log copies: what is kept of an attempt's log for when the backend has forgotten it.

A copy has a cap. It is kept in segments of a quarter of the cap: the first stays, of the others the newest three, so
the log's start and its end are kept, and one line between them says how much is not. Offsets count the bytes of the
copy, that line included. One process at a time appends (the holder of the watch's lease).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tao_sdk.model.plan import Attempt
from tao_sdk.store.private_files import explained, make_directory, name_in

CAP = 256 * 1024 * 1024  # bytes per attempt and rank
NEWEST_KEPT = 3  # segments besides the first


@dataclass(frozen=True)
class Part:
    """Bytes of the copy that follow each other: a segment's file, or the line in place of what was left out."""

    size: int
    path: Path | None = None
    line: bytes = b""

    def read(self, offset: int, limit: int) -> bytes:
        if self.path is None:
            return self.line[offset : offset + limit]
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(limit)


class LogCopies:
    """The copies of one store's logs: `<job>/<attempt>.<rank>.<segment>`."""

    def __init__(self, directory: Path, cap: int = CAP) -> None:
        self.directory = directory
        self.segment_size = max(1, cap // (NEWEST_KEPT + 1))

    def append(self, attempt: Attempt, data: bytes, rank: int = 0) -> None:
        make_directory(self.directory)
        make_directory(self._job(attempt.job_id))
        with explained(self.directory):
            while data:
                number, room = self._newest(attempt, rank)
                _append(self._segment(attempt, rank, number), data[:room])
                data = data[room:]

    def size(self, attempt: Attempt, rank: int = 0) -> int:
        """Bytes that `read` can return."""
        with explained(self.directory):
            return sum(part.size for part in self._parts(attempt, rank))

    def read(self, attempt: Attempt, offset: int = 0, limit: int = 1024 * 1024, rank: int = 0) -> bytes:
        """At most `limit` bytes from `offset` on; fewer than asked, but at least one, until the end."""
        with explained(self.directory):
            for part in self._parts(attempt, rank):
                if offset < part.size:
                    return part.read(offset, limit)
                offset -= part.size
        return b""

    def forget(self, job_id: str) -> None:
        path = self._job(job_id)
        with explained(path):
            if path.is_dir():
                import shutil

                shutil.rmtree(path)

    def jobs(self) -> list[str]:
        """The ids of the jobs that have copies here."""
        with explained(self.directory):
            return sorted(path.name for path in self.directory.iterdir()) if self.directory.is_dir() else []

    def _newest(self, attempt: Attempt, rank: int) -> tuple[int, int]:
        """(the segment to write to, its room). When a new one begins, the oldest but the first goes."""
        numbers = self._numbers(attempt, rank)
        if not numbers:
            return 0, self.segment_size
        room = self.segment_size - self._segment(attempt, rank, numbers[-1]).stat().st_size
        if room > 0:
            return numbers[-1], room
        for number in numbers[1 : 1 - NEWEST_KEPT]:
            self._segment(attempt, rank, number).unlink(missing_ok=True)
        return numbers[-1] + 1, self.segment_size

    def _parts(self, attempt: Attempt, rank: int) -> Iterator[Part]:
        expected = 0
        for number in self._numbers(attempt, rank):
            if number > expected:
                yield _gap((number - expected) * self.segment_size)
            path = self._segment(attempt, rank, number)
            yield Part(path.stat().st_size, path)
            expected = number + 1

    def _numbers(self, attempt: Attempt, rank: int) -> list[int]:
        start = f"{attempt.number}.{rank}."
        job = self._job(attempt.job_id)
        names = [path.name for path in job.iterdir()] if job.is_dir() else []
        return sorted(int(name.removeprefix(start)) for name in names if name.startswith(start))

    def _job(self, job_id: str) -> Path:
        return name_in(self.directory, job_id)

    def _segment(self, attempt: Attempt, rank: int, number: int) -> Path:
        return self._job(attempt.job_id) / f"{attempt.number}.{rank}.{number}"


def _gap(size: int) -> Part:
    line = f"\n[tao: {size} bytes of the log are not kept here]\n".encode()
    return Part(len(line), line=line)


def _append(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
        file.write(data)
