"""Logs: one stream over all attempts of a job, resumed after a drop, and kept when the backend forgets.

Bytes pass through unchanged and in bounded memory.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tao_sdk.backends.contract import LogChunk, LogRequest, MiB
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.kept_log import KeptLog, kept_log
from tao_sdk.engine.waiting import Waiting
from tao_sdk.model.errors import NoLog, PathNotFound, Unreachable, UsageError
from tao_sdk.model.job import AttemptRow
from tao_sdk.runner.events import EventFilter

log = logging.getLogger("tao_sdk.logs")
WAIT_SECONDS = 0.2  # between looks for an attempt that has not started
LONGEST_WAIT_SECONDS = 15.0  # between tries to reach a backend again
SAID_AT = WAIT_SECONDS * 2  # the pause after the second try in vain: a connection that only broke is not told
TOGETHER = "The platform's own log is not to be had, and our copy has stdout and stderr together."
LEAVE_OUT = "Leave the stream out."
STREAMS = ("stdout", "stderr")


@dataclass(frozen=True)
class LogView:
    """Which logs are wanted, and how."""

    request: LogRequest = LogRequest()
    events: bool = False  # keep the runner's own event lines


def read(engine: Engine, job_id: str, view: LogView) -> Iterator[bytes]:
    """The log of every attempt, in order; with a tail, of the newest alone. With follow, until the job has ended."""
    refuse_stream(engine, job_id, view.request.stream)
    if view.events:
        return (chunk.data for chunk in raw(engine, job_id, view.request))
    request = view.request if view.request.tail is None else past_events(engine, job_id, view.request)
    return without_events(chunk.data for chunk in raw(engine, job_id, request))


def refuse_stream(engine: Engine, job_id: str, stream: str) -> None:
    """Raises UsageError for a stream that there is not, or not alone on the job's platform."""
    if stream not in ("", *STREAMS):
        raise UsageError(f"There is no stream {stream!r}.", "", f"Ask for {' or '.join(STREAMS)}, or for none.")
    job = engine.store.get(job_id)
    if stream and not engine.backend_of(job).capabilities.streams_apart:
        raise UsageError(f"There is no {stream} alone.", f"{job.platform} has both in one log.", LEAVE_OUT)


def past_events(engine: Engine, job_id: str, request: LogRequest) -> LogRequest:
    """The request for as many lines more as are the runner's own among the last: a tail counts the command's lines."""
    wanted = asked = request.tail or 0
    while True:
        events, whole, own = EventFilter(), LineCount(), LineCount()
        for chunk in raw(engine, job_id, replace(request, tail=asked, follow=False)):
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


def without_events(chunks: Iterable[bytes]) -> Iterator[bytes]:
    events = EventFilter()
    for chunk in chunks:
        user, _ = events.feed(chunk)
        if user:
            yield user
    if rest := events.close():
        yield rest


def raw(engine: Engine, job_id: str, request: LogRequest) -> Iterator[LogChunk]:
    number: int | None = engine.store.get(job_id).attempt if request.tail is not None else 1
    while number is not None:
        row = _started(engine, job_id, number, request.follow)
        lost = None
        try:
            if row is not None:
                yield from of_attempt(engine, row, request)
        except NoLog as error:
            lost = error
        request = replace(request, tail=None, cursor="")
        following = _next_attempt(engine, job_id, number, request.follow)
        if lost is not None and following is None:
            raise lost
        if lost is not None:
            log.warning("the log of attempt %d is left out: %s", number, lost.what)
        number = following


def _started(engine: Engine, job_id: str, number: int, follow: bool) -> AttemptRow | None:
    """The attempt's row once there is something to read; None when it will never be, or is not wanted to wait for."""
    waiting = Waiting(engine)
    while True:
        row = engine.store.attempt(job_id, number)
        if row.ref is not None and row.ref.ready:
            return row
        job = waiting.look([engine.store.get(job_id)])[0]
        if job.status.terminal or not follow:
            return row if row.ref is not None else None
        time.sleep(WAIT_SECONDS)


def _next_attempt(engine: Engine, job_id: str, number: int, follow: bool) -> int | None:
    """The attempt after `number`; with follow, waited for as long as one can still come."""
    job, waiting = engine.store.get(job_id), Waiting(engine)
    while follow and job.attempt == number and not job.status.terminal:
        time.sleep(WAIT_SECONDS)
        job = waiting.look([engine.store.get(job_id)])[0]
    return number + 1 if job.attempt > number else None


def of_attempt(engine: Engine, row: AttemptRow, request: LogRequest) -> Iterator[LogChunk]:
    """One attempt's log: from the backend, from where it was left when it could not be reached, else from our copy.

    Where neither has any: raises NoLog, or the Unreachable of a backend that may have some.
    """
    assert row.ref is not None
    wait, given = WAIT_SECONDS, 0
    as_copied = request == LogRequest(rank=request.rank, follow=request.follow)
    while True:
        try:
            backend = engine.backend(row.attempt.platform, row.attempt.endpoint)
            for chunk in backend.logs(row.ref, request):
                request = replace(request, cursor=chunk.cursor, tail=None)
                wait, given = WAIT_SECONDS, given + len(chunk.data)
                yield chunk
            return
        except PathNotFound as lost:
            kept = kept_log(engine, row, request.rank)
            if kept is None and not given and isinstance(lost, NoLog):
                raise
            if kept is None and not given:
                raise lost_log(row) from lost
            if as_copied and (kept is None or kept.is_bytewise):
                yield from _rest_of(kept, given)
            else:
                yield from _whole_of(kept, request)
            return
        except Unreachable as away:
            if not request.follow:
                kept = kept_log(engine, row, request.rank)
                if kept is None and not given:
                    raise
                yield from _whole_of(kept, request)
                return
            if wait == SAID_AT:
                log.warning("%s cannot be seen now, its log goes on once it can: %s", row.attempt.job_id, away)
            time.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT_SECONDS)


def lost_log(row: AttemptRow) -> NoLog:
    return NoLog(
        f"The log of {row.attempt.job_id} is gone.",
        "What held it was removed outside the SDK, before its log was read.",
        "tao results shows what the job left.",
    )


def _whole_of(kept: KeptLog | None, request: LogRequest) -> Iterator[LogChunk]:
    """What is kept; nothing when some of the log was already read from the backend, whose cursor does not fit it."""
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
    """Where the last `lines` lines begin, reading backwards. A last line without its newline counts."""
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
    while start + len(data) < end and (piece := kept.read(start + len(data), end - start - len(data))):
        data += piece
    return data
