"""Drain: copy an attempt's log, every rank's, before the backend forgets it.

Once the job is over, its copies are compressed. If a log goes with its place (a container that
somebody removes), reading it for progress copies it as well. By a lease, one process at a time
copies a job's log.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType

from tao_sdk.backends.contract import LogChunk, LogRequest
from tao_sdk.engine.engine import Engine
from tao_sdk.model.errors import PathNotFound, TaoError, Unreachable
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.status import Status

LEASE_SECONDS = 30.0
PATIENCE_SECONDS = 60.0  # to wait while another process copies the same log
MOST_UNREAD = 3  # unreachable ranks after which the whole place counts as unreachable


def drain(engine: Engine, job: Job, row: AttemptRow, most: float = float("inf")) -> None:
    """Copy the part of an attempt's log that is not copied yet, before the log is released,
    replaced or forgotten.

    The saved cursor has a line for each rank. It records the size of the copy, so bytes that were
    appended beyond it before a crash are not appended again. For each rank, not much more than
    `most` bytes are read. A rank whose log cannot be read does not hide the others.

    Raises Unreachable, once the others are copied.
    """
    if row.ref is None:
        return
    with log_turn(engine, job.id):
        unread: list[Unreachable] = []
        for rank in range(row.ranks):
            row = engine.store.attempt(job.id, row.attempt.number)
            try:
                _drain_rank(engine, job, row, rank, most)
            except PathNotFound:
                continue
            except Unreachable as error:
                unread.append(error)
                if len(unread) == MOST_UNREAD:
                    break
        if unread:
            raise unread[0]
        if engine.store.get(job.id).status.terminal:
            engine.store.log_copies.compress(job.id)


def keep_ranks(engine: Engine, jobs: Sequence[Job], most: float) -> None:
    """Copy the new part of the logs of running jobs with several ranks, where a log may lose its
    start or go with its place. A log that cannot be read now is tried again at the next call. The
    jobs are of one endpoint. If it limits the logs of a look, the jobs take turns.
    """
    running = [job for job in jobs if job.status is Status.RUNNING]
    if not running:
        return
    capabilities = engine.backend_of(running[0]).capabilities
    if not capabilities.log_rotates:
        return
    rows = engine.store.newest_attempts([job.id for job in running])
    of_ranks = {job.id: job for job in running if job.id in rows and rows[job.id].ranks > 1}
    logs = capabilities.logs_per_look or sys.maxsize
    for job_id in engine.rank_turns.take(of_ranks, logs, lambda job_id: rows[job_id].ranks):
        with suppress(TaoError):
            drain(engine, of_ranks[job_id], rows[job_id], most)


def _drain_rank(engine: Engine, job: Job, row: AttemptRow, rank: int, most: float) -> None:
    assert row.ref is not None
    copy = Copy(engine, row, rank)
    read = 0
    try:
        for chunk in engine.backend_of(job).logs(
            row.ref, LogRequest(rank=rank, cursor=copy.cursor)
        ):
            copy.append(chunk)
            read += len(chunk.data)
            if read >= most:
                break
    finally:
        copy.save()


class Copy:
    """The copy of one rank's log, and the cursor up to which the backend's log is copied."""

    def __init__(self, engine: Engine, row: AttemptRow, rank: int) -> None:
        self._store, self._attempt, self._rank = engine.store, row.attempt, rank
        self._saved = saved_cursors(row)
        size, self.cursor = saved_copy(row, rank)
        self._skip = engine.store.log_copies.size(row.attempt, rank) - size

    def append(self, chunk: LogChunk) -> None:
        self._store.log_copies.append(self._attempt, chunk.data[max(self._skip, 0) :], self._rank)
        self._skip -= len(chunk.data)
        self.cursor = chunk.cursor

    def save(self) -> None:
        size = self._store.log_copies.size(self._attempt, self._rank)
        saved = f"{size} {self.cursor}" if self.cursor else ""
        if saved != self._saved[self._rank]:
            self._saved[self._rank] = saved
            self._store.save_log_cursor(self._attempt, "\n".join(self._saved))


def saved_cursors(row: AttemptRow) -> list[str]:
    """For each rank, the size of its copy and the cursor behind it; "" if there is none."""
    return (row.log_cursor.split("\n") + [""] * row.ranks)[: row.ranks]


def saved_copy(row: AttemptRow, rank: int) -> tuple[int, str]:
    """Return (size of a rank's copy in bytes, cursor from which the backend's log continues)."""
    size, _, cursor = saved_cursors(row)[rank].partition(" ")
    return int(size or 0), cursor


class Keeper:
    """Copies what a reader reads of rank 0's log from `cursor` on, if the log goes with its place.

    It copies only if the copy ends at that cursor and no other process copies the log now. If not,
    the next drain copies the rest.
    """

    def __init__(self, engine: Engine, row: AttemptRow, cursor: str) -> None:
        self._engine, self._row, self._cursor = engine, row, cursor
        self._copy: Copy | None = None
        self._asked = not engine.backend(
            row.attempt.platform, row.attempt.endpoint
        ).capabilities.log_goes

    def passed_on(self, chunks: Iterable[LogChunk]) -> Iterator[LogChunk]:
        """Yield the same chunks, each one copied first."""
        for chunk in chunks:
            self._begin()
            if self._copy is not None:
                self._copy.append(chunk)
            yield chunk

    def _begin(self) -> None:
        if self._asked:
            return
        self._asked = True
        job_id = self._row.attempt.job_id
        if not self._engine.take_lease(lease_of(job_id), LEASE_SECONDS):
            return
        copy = Copy(self._engine, self._engine.store.attempt(job_id, self._row.attempt.number), 0)
        if copy.cursor == self._cursor:
            self._copy = copy
        else:
            self._engine.give_back(lease_of(job_id))

    def __enter__(self) -> Keeper:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._copy is not None:
            self._copy.save()
            self._engine.give_back(lease_of(self._row.attempt.job_id))


@contextmanager
def log_turn(engine: Engine, job_id: str) -> Generator[None]:
    """Hold the lease of the job's log copies. Raises Unreachable if another process stays busy with
    them.
    """
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not engine.take_lease(lease_of(job_id), LEASE_SECONDS):
        if time.monotonic() > give_up:
            raise Unreachable(
                f"The log of {job_id} is being kept by another process.", "", "Try again."
            )
        time.sleep(0.05)
    try:
        with engine.kept_lease(lease_of(job_id), LEASE_SECONDS):
            yield
    finally:
        engine.give_back(lease_of(job_id))


def lease_of(job_id: str) -> str:
    return f"log:{job_id}"
