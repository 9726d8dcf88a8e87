"""Logs: one stream over all attempts of a job and all their ranks, resumed after a drop, and kept
when the backend forgets.

Bytes pass through unchanged and in bounded memory.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tao_sdk.backends.contract import LogChunk, LogRequest, MiB
from tao_sdk.engine import rank_logs
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.kept_log import KeptLog, kept_log
from tao_sdk.engine.waiting import Waiting
from tao_sdk.model.errors import NoLog, PathNotFound, Unreachable, UsageError
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.runner.events import EventFilter

log = logging.getLogger("tao_sdk.logs")
WAIT_SECONDS = 0.2  # between looks for an attempt that has not started
SLOW_SECONDS = 3.0  # between rounds of reading that bring nothing new
LONGEST_WAIT_SECONDS = 15.0  # between tries to reach a backend again
SAID_AT = (
    WAIT_SECONDS * 2
)  # the pause after the second try in vain: a connection that only broke is not told
TOGETHER = "The platform's own log is not to be had, and our copy has stdout and stderr together."
LEAVE_OUT = "Leave the stream out."
STREAMS = ("stdout", "stderr")


def nobody() -> None:
    """For a caller who starts no attempts."""


@dataclass(frozen=True)
class LogView:
    """Which logs are wanted, and how. `carry` is called while a further attempt waits for a
    watcher.
    """

    request: LogRequest = LogRequest()  # its rank counts unless all are wanted
    events: bool = False  # keep the runner's own event lines
    every_rank: bool = False
    carry: Callable[[], None] = nobody


def read(engine: Engine, job_id: str, view: LogView) -> Iterator[bytes]:
    """The log of every attempt, in order; with a tail, of the newest alone. With follow, until the
    job has ended.

    Of several ranks each one's follows that of the one before; with follow their lines come as they
    are written.
    """
    refuse_stream(engine, job_id, view.request.stream)
    requests = requests_of(engine, job_id, view)
    if not view.events and view.request.tail is not None:
        requests = [past_events(engine, job_id, request) for request in requests]
    pieces: rank_logs.Pieces = (
        (rank, chunk.data) for rank, chunk in raw(engine, job_id, requests, view.carry)
    )
    if not view.events:
        pieces = rank_logs.without_events(pieces)
    if len(requests) > 1 and view.request.follow:
        pieces = rank_logs.in_whole_lines(pieces)
    return rank_logs.with_headers(pieces) if len(requests) > 1 else (data for _, data in pieces)


def requests_of(engine: Engine, job_id: str, view: LogView) -> list[LogRequest]:
    """One for each rank that is wanted."""
    if not view.every_rank:
        return [view.request]
    return [replace(view.request, rank=rank) for rank in range(engine.store.attempt(job_id).ranks)]


def refuse_stream(engine: Engine, job_id: str, stream: str) -> None:
    """Raises UsageError for a stream that there is not, or not alone on the job's platform."""
    if stream not in ("", *STREAMS):
        raise UsageError(
            f"There is no stream {stream!r}.", "", f"Ask for {' or '.join(STREAMS)}, or for none."
        )
    job = engine.store.get(job_id)
    if stream and not engine.backend_of(job).capabilities.streams_apart:
        raise UsageError(
            f"There is no {stream} alone.", f"{job.platform} has both in one log.", LEAVE_OUT
        )


def past_events(engine: Engine, job_id: str, request: LogRequest) -> LogRequest:
    """The request for as many lines more as are the runner's own among the last: a tail counts the
    command's lines.
    """
    wanted = asked = request.tail or 0
    while True:
        events, whole, own = EventFilter(), LineCount(), LineCount()
        with suppress(NoLog):  # who reads it for good is told
            for _, chunk in raw(engine, job_id, [replace(request, tail=asked, follow=False)]):
                whole.feed(chunk.data)
                own.feed(events.feed(chunk.data)[0])
        own.feed(events.close())
        found = whole.lines - own.lines
        if wanted + found <= asked:
            return replace(request, tail=asked)
        asked = wanted + found


class LineCount:
    """Counts the lines of what it is fed; a last one without its newline counts."""

    def __init__(self) -> None:
        self.newlines, self.open = 0, False

    def feed(self, data: bytes) -> None:
        self.newlines += data.count(b"\n")
        self.open = not data.endswith(b"\n") if data else self.open

    @property
    def lines(self) -> int:
        return self.newlines + self.open


def raw(
    engine: Engine, job_id: str, requests: Sequence[LogRequest], carry: Callable[[], None] = nobody
) -> Iterator[tuple[int, LogChunk]]:
    """(rank, chunk) of each rank that is asked for, attempt after attempt."""
    wait = Coming(engine, job_id, requests[0].follow, carry)
    number: int | None = engine.store.get(job_id).attempt if requests[0].tail is not None else 1
    while number is not None:
        row = wait.started(number)
        lost = None
        try:
            if row is not None:
                yield from of_ranks(engine, row, requests)
        except NoLog as error:
            lost = error
        requests = [replace(request, tail=None, cursor="") for request in requests]
        following = wait.next_attempt(number)
        if lost is not None and following is None:
            raise lost
        if lost is not None:
            log.warning("the log of attempt %d is left out: %s", number, lost.what)
        number = following


@dataclass(frozen=True)
class Coming:
    """Attempts of a job as they come; with follow they are waited for."""

    engine: Engine
    job_id: str
    follow: bool
    carry: Callable[[], None]

    def started(self, number: int) -> AttemptRow | None:
        """The attempt's row once there is something to read; None when it will never be, or is not
        wanted to wait for.
        """
        waiting = Waiting(self.engine)
        while True:
            row = self.engine.store.attempt(self.job_id, number)
            if row.ref is not None and row.ref.ready:
                return row
            job = waiting.look([self.engine.store.get(self.job_id)])[0]
            if job.status.terminal or not self.follow:
                return row if row.ref is not None else None
            self.pause(job)

    def next_attempt(self, number: int) -> int | None:
        """The attempt after `number`; with follow, waited for as long as one can still come."""
        job, waiting = self.engine.store.get(self.job_id), Waiting(self.engine)
        while self.follow and job.attempt == number and not job.status.terminal:
            self.pause(job)
            job = waiting.look([self.engine.store.get(self.job_id)])[0]
        return number + 1 if job.attempt > number else None

    def pause(self, job: Job) -> None:
        if job.waits_for_next_attempt:
            self.carry()
        time.sleep(WAIT_SECONDS)


def of_ranks(
    engine: Engine, row: AttemptRow, requests: Sequence[LogRequest]
) -> Iterator[tuple[int, LogChunk]]:
    """(rank, chunk) of one attempt. Raises NoLog where no rank has a log."""
    if len(requests) == 1:
        return ((requests[0].rank, chunk) for chunk in of_attempt(engine, row, requests[0]))
    logs = [AttemptLog(engine, row, replace(request, follow=False)) for request in requests]
    return followed(engine, row, logs) if requests[0].follow else one_by_one(logs)


def one_by_one(logs: Sequence[AttemptLog]) -> Iterator[tuple[int, LogChunk]]:
    lost: list[NoLog] = []
    for each in logs:
        try:
            for chunk in of_attempt(each.engine, each.row, each.request):
                yield each.rank, chunk
        except NoLog as error:
            lost.append(error)
    if len(lost) == len(logs):
        raise lost[0]


def followed(
    engine: Engine, row: AttemptRow, logs: Sequence[AttemptLog]
) -> Iterator[tuple[int, LogChunk]]:
    """What is new of each, round after round, until the attempt is over and all has been read.

    One question after the other: a rank is not followed by a connection of its own.
    """
    waiting, pause, away = Waiting(engine), WAIT_SECONDS, 0
    while True:
        over = is_over(row, waiting.look([engine.store.get(row.attempt.job_id)])[0])
        given, unseen = sum(each.given for each in logs), False
        for each in logs:
            try:
                yield from each.news()
            except Unreachable as error:
                unseen = True
                away += 1
                if away == 2 * len(logs):
                    log.warning(
                        "%s cannot be seen now, its log goes on once it can: %s",
                        row.attempt.job_id,
                        error,
                    )
        if over and not unseen:
            break
        away = away if unseen else 0
        pause = (
            WAIT_SECONDS
            if sum(each.given for each in logs) > given
            else min(pause * 1.5, SLOW_SECONDS)
        )
        time.sleep(pause)
    if all(each.lost for each in logs):
        raise logs[0].lost or lost_log(row)


def is_over(row: AttemptRow, job: Job) -> bool:
    return job.status.terminal or job.attempt > row.attempt.number or job.waits_for_next_attempt


class AttemptLog:
    """One rank's log of one attempt, read to where it is now: from the backend, else from what is
    kept.
    """

    def __init__(self, engine: Engine, row: AttemptRow, request: LogRequest) -> None:
        self.engine, self.row, self.request, self.rank = engine, row, request, request.rank
        self.given = 0  # bytes
        self.over = False
        self.lost: NoLog | None = None
        self._as_copied = request == LogRequest(rank=request.rank, follow=request.follow)

    def news(self) -> Iterator[tuple[int, LogChunk]]:
        """(rank, chunk) of what has come since. Raises Unreachable."""
        if self.over:
            return
        try:
            for chunk in self.of_backend():
                yield self.rank, chunk
        except PathNotFound as gone:
            self.over = True
            try:
                for chunk in self.after_loss(gone):
                    yield self.rank, chunk
            except NoLog as error:
                self.lost = error

    def of_backend(self) -> Iterator[LogChunk]:
        """Each call goes on where the one before has ended."""
        assert self.row.ref is not None
        backend = self.engine.backend(self.row.attempt.platform, self.row.attempt.endpoint)
        for chunk in backend.logs(self.row.ref, self.request):
            self.request = replace(self.request, cursor=chunk.cursor, tail=None)
            self.given += len(chunk.data)
            yield chunk

    def after_loss(self, lost: PathNotFound) -> Iterator[LogChunk]:
        """The rest, from what is kept. Raises NoLog where nothing was given and nothing is kept."""
        kept = kept_log(self.engine, self.row, self.rank)
        if kept is None and not self.given and isinstance(lost, NoLog):
            raise lost
        if kept is None and not self.given:
            raise lost_log(self.row) from lost
        if self._as_copied and (kept is None or kept.is_bytewise):
            return _rest_of(kept, self.given)
        return _whole_of(kept, self.request)

    def while_away(self, away: Unreachable) -> Iterator[LogChunk]:
        """What is kept. Raises the backend's Unreachable where it may have a log of which nothing
        is kept.
        """
        kept = kept_log(self.engine, self.row, self.rank)
        if kept is None and not self.given:
            raise away
        return _whole_of(kept, self.request)


def of_attempt(engine: Engine, row: AttemptRow, request: LogRequest) -> Iterator[LogChunk]:
    """One attempt's log: from the backend, from where it was left when it could not be reached,
    else from our copy.

    Where neither has any: raises NoLog, or the Unreachable of a backend that may have some.
    """
    attempt_log, wait, given = AttemptLog(engine, row, request), WAIT_SECONDS, 0
    while True:
        try:
            yield from attempt_log.of_backend()
            return
        except PathNotFound as lost:
            yield from attempt_log.after_loss(lost)
            return
        except Unreachable as away:
            if not request.follow:
                yield from attempt_log.while_away(away)
                return
            wait = wait if attempt_log.given == given else WAIT_SECONDS
            given = attempt_log.given
            if wait == SAID_AT:
                log.warning(
                    "%s cannot be seen now, its log goes on once it can: %s",
                    row.attempt.job_id,
                    away,
                )
            time.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT_SECONDS)


def lost_log(row: AttemptRow) -> NoLog:
    return NoLog(
        f"The log of {row.attempt.job_id} is gone.",
        "What held it was removed outside the SDK, before its log was read.",
        "tao results shows what the job left.",
    )


def _whole_of(kept: KeptLog | None, request: LogRequest) -> Iterator[LogChunk]:
    """What is kept; nothing when some of the log was already read from the backend, whose cursor
    does not fit it.
    """
    if request.cursor or kept is None:
        return
    if request.stream:
        raise PathNotFound(f"There is no {request.stream} alone.", TOGETHER, LEAVE_OUT)
    yield from _rest_of(kept, 0 if request.tail is None else _tail_offset(kept, request.tail))


def _rest_of(kept: KeptLog | None, offset: int) -> Iterator[LogChunk]:
    """What is kept from `offset` on."""
    while kept is not None and (data := kept.read(offset, MiB)):
        offset += len(data)
        yield LogChunk(data, "")


def _tail_offset(kept: KeptLog, lines: int) -> int:
    """Where the last `lines` lines begin, reading backwards. A last line without its newline
    counts.
    """
    size = kept.size()
    end, wanted = size, lines + (_between(kept, max(size - 1, 0), size) == b"\n")
    while wanted and end:
        start = max(0, end - MiB)
        block = _between(kept, start, end)
        at = len(block)
        for _ in range(min(wanted, block.count(b"\n"))):
            at = block.rindex(b"\n", 0, at)
            wanted -= 1
        if not wanted:
            return start + at + 1
        end = start
    return 0 if wanted else size


def _between(kept: KeptLog, start: int, end: int) -> bytes:
    """The bytes from `start` to `end` of what is kept, which gives them piece by piece."""
    data = b""
    while start + len(data) < end and (
        piece := kept.read(start + len(data), end - start - len(data))
    ):
        data += piece
    return data
