"""Logs: one stream over all attempts of a job and all their ranks. It resumes after a drop, and
goes on from a copy when the backend has lost a log.

Bytes pass through unchanged and in bounded memory. Here: which attempts and ranks, in what order.
Not here: how one attempt's log is read (attempt_log.py), how ranks are told apart (rank_logs.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tao_sdk.backends.contract import LogRequest, TellsReplicas
from tao_sdk.engine import rank_logs
from tao_sdk.engine.attempt_log import LEAVE_STREAM_OUT, RankChunk, read_ranks
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.replicas import replicas_there
from tao_sdk.engine.waiting import Waiting
from tao_sdk.model.errors import NoLog, TaoError, UsageError
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.runner.events import EventFilter

log = logging.getLogger("tao_sdk.logs")
WAIT_SECONDS = 0.2  # between looks for an attempt that has not started
STREAMS = ("stdout", "stderr")


def start_nothing() -> None:
    """Do nothing: for a caller who starts no attempts."""


@dataclass(frozen=True)
class LogView:
    """The logs to read, and how.

    `carry` is called while a further attempt waits for a watcher: it may start that attempt.
    `first_attempt` is the first whose log is read.
    """

    request: LogRequest = LogRequest()  # its rank counts unless `every_rank`
    events: bool = False  # keep the runner's own event lines
    every_rank: bool = False
    carry: Callable[[], None] = start_nothing
    first_attempt: int = 1


def read(engine: Engine, job_id: str, view: LogView) -> Iterator[bytes]:
    """Read the log of every attempt, in order; with a tail, of the newest alone. With follow, until
    the job has ended.

    The logs of several ranks come one after the other; with follow, their lines come as they are
    written. Raises UsageError for a stream that the platform does not have, NoLog, Unreachable.
    """
    refuse_stream(engine, job_id, view.request.stream)
    requests = requests_of_ranks(engine, job_id, view)
    if not view.events and view.request.tail is not None:
        requests = [with_longer_tail(engine, job_id, request) for request in requests]
    chunks = read_attempts(engine, job_id, requests, view.carry, view.first_attempt)
    sources = known_sources(engine, job_id) if len(requests) > 1 else None
    pieces: rank_logs.Pieces = noting_sources(chunks, sources)
    if not view.events:
        pieces = rank_logs.without_events(pieces)
    if len(requests) == 1:
        return (data for _, data in pieces)
    if view.request.follow:
        pieces = rank_logs.in_whole_lines(pieces)
    return rank_logs.with_headers(pieces, sources)


def known_sources(engine: Engine, job_id: str) -> dict[int, str] | None:
    """The source of each rank's log, as far as it is known; None if the job's backend never tells.
    Sources are known only for a job with a single attempt: further attempts' logs begin with the
    first one's.
    """
    job = engine.store.get(job_id)
    try:
        if not isinstance(engine.backend_of(job), TellsReplicas):
            return None
        told = replicas_there(engine, job) if job.attempt == 1 else ()
    except TaoError:  # there may be a copy of the log all the same
        return {}
    return {replica.rank: replica.source for replica in told if replica.source}


def noting_sources(
    chunks: Iterator[RankChunk], sources: dict[int, str] | None
) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of each chunk, and note the sources of the ranks' logs in `sources`."""
    for rank, chunk in chunks:
        if chunk.source and sources is not None:
            sources[rank] = chunk.source
        yield rank, chunk.data


def refuse_stream(engine: Engine, job_id: str, stream: str) -> None:
    """Raise UsageError for an unknown stream, or one that the job's platform does not have
    alone.
    """
    if stream not in ("", *STREAMS):
        raise UsageError(
            f"unknown stream: {stream!r}", "", f"Ask for {' or '.join(STREAMS)}, or for none."
        )
    job = engine.store.get(job_id)
    if stream and not engine.backend_of(job).capabilities.streams_apart:
        raise UsageError(
            f"There is no {stream} alone.",
            f"{job.platform} has both in one log.",
            LEAVE_STREAM_OUT,
        )


def requests_of_ranks(engine: Engine, job_id: str, view: LogView) -> list[LogRequest]:
    """One request for each rank to read."""
    if not view.every_rank:
        return [view.request]
    ranks = range(engine.store.attempt(job_id).ranks)
    return [replace(view.request, rank=rank) for rank in ranks]


def with_longer_tail(engine: Engine, job_id: str, request: LogRequest) -> LogRequest:
    """Lengthen the tail by the runner's own lines, so that it has `tail` lines of the command."""
    wanted_lines = tail = request.tail or 0
    while True:
        event_lines = count_event_lines(engine, job_id, replace(request, tail=tail, follow=False))
        if wanted_lines + event_lines <= tail:
            return replace(request, tail=tail)
        tail = wanted_lines + event_lines


def count_event_lines(engine: Engine, job_id: str, request: LogRequest) -> int:
    """The number of the runner's own lines in a log. A log that is gone has none."""
    events, all_lines, own_lines = EventFilter(), LineCount(), LineCount()
    with suppress(NoLog):
        for _, chunk in read_attempts(engine, job_id, [request]):
            all_lines.feed(chunk.data)
            own_lines.feed(events.feed(chunk.data)[0])
    own_lines.feed(events.close())
    return all_lines.lines - own_lines.lines


class LineCount:
    """Counts the lines of the data that is fed to it. A last line without its newline counts."""

    def __init__(self) -> None:
        self.newlines, self.is_open = 0, False

    def feed(self, data: bytes) -> None:
        if not data:
            return
        self.newlines += data.count(b"\n")
        self.is_open = not data.endswith(b"\n")

    @property
    def lines(self) -> int:
        return self.newlines + self.is_open


def read_attempts(
    engine: Engine,
    job_id: str,
    requests: Sequence[LogRequest],
    carry: Callable[[], None] = start_nothing,
    first_attempt: int = 1,
) -> Iterator[RankChunk]:
    """Yield (rank, chunk) of each requested rank, attempt after attempt.

    An attempt whose log is gone is left out with a warning; raises NoLog if it is the last.
    """
    attempts = Attempts(engine, job_id, requests[0].follow, carry)
    number: int | None = first_attempt
    if requests[0].tail is not None:
        number = engine.store.get(job_id).attempt
    while number is not None:
        row, missing = attempts.wait_for_start(number), None
        try:
            if row is not None:
                yield from read_ranks(engine, row, requests)
        except NoLog as error:
            missing = error
        requests = [replace(request, tail=None, cursor="") for request in requests]
        next_number = attempts.wait_for_next(number)
        if missing is not None and next_number is None:
            raise missing
        if missing is not None:
            log.warning("the log of attempt %d is left out: %s", number, missing.what)
        number = next_number


@dataclass(frozen=True)
class Attempts:
    """The attempts of a job, one after the other. With follow, wait for further ones."""

    engine: Engine
    job_id: str
    follow: bool
    carry: Callable[[], None]

    def wait_for_start(self, number: int) -> AttemptRow | None:
        """Return the attempt's row once there is something to read. None if there will never be, or
        if the log is not followed.
        """
        waiting = Waiting(self.engine)
        while True:
            row = self.engine.store.attempt(self.job_id, number)
            if row.ref is not None and row.ref.ready:
                return row
            job = waiting.look([self.engine.store.get(self.job_id)])[0]
            if job.status.terminal or not self.follow:
                return None if row.ref is None else row
            self._pause(job)

    def wait_for_next(self, number: int) -> int | None:
        """The number of the attempt after `number`; None if none comes. With follow, wait as long
        as one can still come.
        """
        job, waiting = self.engine.store.get(self.job_id), Waiting(self.engine)
        while self.follow and job.attempt == number and not job.status.terminal:
            self._pause(job)
            job = waiting.look([self.engine.store.get(self.job_id)])[0]
        return number + 1 if job.attempt > number else None

    def _pause(self, job: Job) -> None:
        if job.waits_for_next_attempt:
            self.carry()
        time.sleep(WAIT_SECONDS)
