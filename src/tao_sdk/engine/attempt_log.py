"""The log of one attempt: of one rank or of several, from the backend, else from a copy.

If the log is followed, a backend that cannot be reached is asked again. A log that the backend has
lost continues from our copy, or from the one among the results (kept_log.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tao_sdk.backends.contract import AnyBackend, LogChunk, LogRequest, MiB
from tao_sdk.backends.log_tail import find_tail
from tao_sdk.engine.drain import MOST_UNREAD, saved_copy
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.kept_log import KeptLog, kept_log
from tao_sdk.engine.waiting import Waiting
from tao_sdk.model.errors import NoLog, PathNotFound, Unreachable
from tao_sdk.model.job import AttemptRow, Job

log = logging.getLogger("tao_sdk.logs")
FIRST_WAIT_SECONDS = 0.2  # between two reads of a log
LONGEST_WAIT_SECONDS = 3.0  # between two reads that brought nothing new
LONGEST_AWAY_SECONDS = 15.0  # between two tries to reach an unreachable backend
LEAVE_STREAM_OUT = "Leave the stream out."

RankChunk = tuple[int, LogChunk]  # (rank, a piece of its log)


class AttemptLog:
    """The log of one rank of an attempt, and how far it was read."""

    def __init__(self, engine: Engine, row: AttemptRow, request: LogRequest) -> None:
        self.engine, self.row, self.request, self.rank = engine, row, request, request.rank
        self.bytes_read = 0
        self.is_over = False
        self.lost: NoLog | None = None
        self._wants_all = request == LogRequest(rank=request.rank, follow=request.follow)

    def read_backend(self) -> Iterator[LogChunk]:
        """Read the backend's log. Each call continues where the last one ended."""
        assert self.row.ref is not None
        backend = self.engine.backend(self.row.attempt.platform, self.row.attempt.endpoint)
        if backend.capabilities.log_rotates and not self.bytes_read:
            if self._wants_all:
                yield from self._read_copy()
            elif self.request.tail is not None:
                yield from self._pass(self._read_tail(backend, self.request.tail))
                if not self.request.follow:
                    return
        yield from self._pass(backend.logs(self.row.ref, self.request))

    def _pass(self, chunks: Iterable[LogChunk]) -> Iterator[LogChunk]:
        """Yield the same chunks. The next request continues behind them."""
        for chunk in chunks:
            self.request = replace(self.request, cursor=chunk.cursor, tail=None)
            self.bytes_read += len(chunk.data)
            yield chunk

    def _read_tail(self, backend: AnyBackend, lines: int) -> Iterator[LogChunk]:
        """Read the last lines. If the backend has fewer, those before them come from our copy."""
        assert self.row.ref is not None
        newest = list(backend.logs(self.row.ref, replace(self.request, follow=False)))
        kept = copied_part(self.engine, self.row, self.rank)
        is_long = b"".join(chunk.data for chunk in newest).count(b"\n") >= lines
        if is_long or not kept.cursor:
            return iter(newest)
        asked = LogRequest(rank=self.rank, cursor=kept.cursor)
        return kept.join_tail(list(backend.logs(self.row.ref, asked)), lines)

    def _read_copy(self) -> Iterator[LogChunk]:
        """Read our copy, whose start the backend may have lost. The backend continues where
        it ends.
        """
        row = self.engine.store.attempt(self.row.attempt.job_id, self.row.attempt.number)
        size, cursor = saved_copy(row, self.rank)
        copies = self.engine.store.log_copies
        while cursor and self.bytes_read < size:
            most = min(size - self.bytes_read, MiB)
            data = copies.read(row.attempt, self.bytes_read, most, self.rank)
            if not data:
                return
            self.bytes_read += len(data)
            self.request = replace(self.request, cursor=cursor)
            yield LogChunk(data, cursor)

    def read_new(self) -> Iterator[RankChunk]:
        """Read what has come since the last call. Raises Unreachable."""
        if self.is_over:
            return
        try:
            for chunk in self.read_backend():
                yield self.rank, chunk
        except PathNotFound as error:
            self.is_over = True
            yield from self._rest_of_lost(error)

    def _rest_of_lost(self, error: PathNotFound) -> Iterator[RankChunk]:
        try:
            for chunk in self.read_kept(error):
                yield self.rank, chunk
        except NoLog as no_log:
            self.lost = no_log

    def read_kept(self, error: PathNotFound) -> Iterator[LogChunk]:
        """Read the rest of a log that the backend has lost from a copy.

        Raises NoLog if nothing was read and there is no copy.
        """
        kept = kept_log(self.engine, self.row, self.rank)
        if kept is None and not self.bytes_read:
            if isinstance(error, NoLog):
                raise error
            raise removed_log(self.row) from error
        if self._wants_all and (kept is None or kept.is_bytewise):
            return read_from(kept, self.bytes_read)
        return read_as_asked(kept, self.request)

    def read_kept_meanwhile(self, error: Unreachable) -> Iterator[LogChunk]:
        """Read a copy while the backend is unreachable.

        Raises `error` if nothing was read and there is no copy: the backend may have a log.
        """
        kept = kept_log(self.engine, self.row, self.rank)
        if kept is None and not self.bytes_read:
            raise error
        return read_as_asked(kept, self.request)


@dataclass(frozen=True)
class CopiedPart:
    """The copied part of a log. The backend's log continues behind it from `cursor` on."""

    size: int  # bytes
    cursor: str  # "" where nothing is copied
    read: Callable[[int, int], bytes]  # (offset, limit) -> some of its bytes

    def join_tail(self, newer: Sequence[LogChunk], lines: int) -> Iterator[LogChunk]:
        """Yield the last lines of the copy and of the newer chunks together."""
        text = b"".join(chunk.data for chunk in newer)
        last = newer[-1] if newer else LogChunk(b"", self.cursor)

        def read_both(start: int, end: int) -> bytes:
            newer_part = text[max(start - self.size, 0) : max(end - self.size, 0)]
            return read_pieces(self.read, start, min(end, self.size)) + newer_part

        whole_size = self.size + len(text)
        start = find_tail(whole_size, read_both, lines, MiB)
        while start < whole_size:
            data = read_both(start, min(start + MiB, whole_size))
            start += len(data)
            yield replace(last, data=data)


def copied_part(engine: Engine, row: AttemptRow, rank: int) -> CopiedPart:
    """Our copy of a rank's log, up to the cursor at which the backend's log continues."""
    row = engine.store.attempt(row.attempt.job_id, row.attempt.number)
    size, cursor = saved_copy(row, rank)
    read = partial(engine.store.log_copies.read, row.attempt, rank=rank)
    return CopiedPart(size, cursor, read)


def read_attempt(engine: Engine, row: AttemptRow, request: LogRequest) -> Iterator[LogChunk]:
    """Read the log of one rank of an attempt.

    Raises NoLog if there is none. Raises Unreachable if the backend is unreachable and may have
    one, unless the log is followed.
    """
    attempt_log, reached, wait = AttemptLog(engine, row, request), 0, FIRST_WAIT_SECONDS
    while True:
        try:
            yield from attempt_log.read_backend()
            return
        except PathNotFound as error:
            yield from attempt_log.read_kept(error)
            return
        except Unreachable as error:
            if not request.follow:
                yield from attempt_log.read_kept_meanwhile(error)
                return
            if attempt_log.bytes_read > reached:
                reached, wait = attempt_log.bytes_read, FIRST_WAIT_SECONDS
            if wait == 2 * FIRST_WAIT_SECONDS:
                warn_away(row, error)
        time.sleep(wait)
        wait = min(wait * 2, LONGEST_AWAY_SECONDS)


def read_ranks(
    engine: Engine, row: AttemptRow, requests: Sequence[LogRequest]
) -> Iterator[RankChunk]:
    """Read the logs of an attempt's ranks, one request a rank. Raises NoLog if no rank has a
    log.
    """
    if len(requests) == 1:
        return ((requests[0].rank, chunk) for chunk in read_attempt(engine, row, requests[0]))
    if requests[0].follow:
        return follow_ranks(engine, row, requests)
    return read_one_by_one(engine, row, requests)


def read_one_by_one(
    engine: Engine, row: AttemptRow, requests: Sequence[LogRequest]
) -> Iterator[RankChunk]:
    """Read rank after rank. A rank whose log cannot be read is left out with a warning, if
    another's can be read.
    """
    missing: list[NoLog | Unreachable] = []
    for request in requests:
        try:
            for chunk in read_attempt(engine, row, request):
                yield request.rank, chunk
        except (NoLog, Unreachable) as error:
            missing.append(error)
            if isinstance(error, Unreachable) and len(missing) == request.rank + 1 >= MOST_UNREAD:
                raise error from None  # none of the first ranks can be read: the place is away
    if len(missing) == len(requests):
        raise missing[0]
    for error in missing:
        if isinstance(error, Unreachable):
            log.warning("the log of a rank of %s is left out: %s", row.attempt.job_id, error)


def follow_ranks(
    engine: Engine, row: AttemptRow, requests: Sequence[LogRequest]
) -> Iterator[RankChunk]:
    """Yield the new part of each rank's log, round after round, until the attempt is over and all
    is read.

    The ranks are asked one after the other: none has a connection of its own.
    """
    logs = [AttemptLog(engine, row, replace(request, follow=False)) for request in requests]
    waiting, wait, rounds_away = Waiting(engine), FIRST_WAIT_SECONDS, 0
    while True:
        is_over = is_attempt_over(row, waiting.look([engine.store.get(row.attempt.job_id)])[0])
        before, away = total_read(logs), None
        for attempt_log in logs:
            try:
                yield from attempt_log.read_new()
            except Unreachable as error:
                away = error
        if is_over and away is None:
            break
        rounds_away = rounds_away + 1 if away else 0
        if away and rounds_away == 2:
            warn_away(row, away)
        is_news = total_read(logs) > before
        wait = FIRST_WAIT_SECONDS if is_news else min(wait * 1.5, LONGEST_WAIT_SECONDS)
        time.sleep(wait)
    if all(attempt_log.lost for attempt_log in logs):
        raise logs[0].lost or removed_log(row)


def total_read(logs: Sequence[AttemptLog]) -> int:
    return sum(attempt_log.bytes_read for attempt_log in logs)


def is_attempt_over(row: AttemptRow, job: Job) -> bool:
    return job.status.terminal or job.attempt > row.attempt.number or job.waits_for_next_attempt


def warn_away(row: AttemptRow, error: Unreachable) -> None:
    job_id = row.attempt.job_id
    log.warning("%s cannot be seen now, its log goes on once it can: %s", job_id, error)


def removed_log(row: AttemptRow) -> NoLog:
    return NoLog(
        f"The log of {row.attempt.job_id} is gone.",
        "What held it was removed outside the SDK, before its log was read.",
        "See what the job left:",
        f"tao results {row.attempt.job_id}",
    )


def read_as_asked(kept: KeptLog | None, request: LogRequest) -> Iterator[LogChunk]:
    """Read a copy, or its tail. Read nothing if some of the log was already read from the backend:
    its cursor does not fit the copy.
    """
    if request.cursor or kept is None:
        return
    if request.stream:
        raise PathNotFound(
            f"There is no {request.stream} alone.",
            "The platform's own log is not to be had; our copy has stdout and stderr together.",
            LEAVE_STREAM_OUT,
        )
    yield from read_from(kept, offset_of_tail(kept, request.tail))


def read_from(kept: KeptLog | None, offset: int) -> Iterator[LogChunk]:
    """Read a copy from `offset` (bytes) on."""
    while kept is not None and (data := kept.read(offset, MiB)):
        offset += len(data)
        yield LogChunk(data, "")


def offset_of_tail(kept: KeptLog, lines: int | None) -> int:
    """The offset of the last `lines` lines of a copy, in bytes; 0 for None, all of it."""
    if lines is None:
        return 0
    return find_tail(kept.size(), partial(read_pieces, kept.read), lines, MiB)


def read_pieces(read: Callable[[int, int], bytes], start: int, end: int) -> bytes:
    """The bytes from `start` to `end`. `read`(offset, limit) gives them piece by piece."""
    data = b""
    while start + len(data) < end:
        piece = read(start + len(data), end - start - len(data))
        if not piece:
            break
        data += piece
    return data
