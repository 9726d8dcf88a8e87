"""Progress: how far a job's training is, read from what is new in its log; a milestone is never skipped.

Where the log tells no epoch, the status.json among the results does (engine/status_file.py). Not here: when it is read
(engine/reading.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from tao_sdk.backends.contract import LogChunk, LogRequest, MiB
from tao_sdk.engine import hooks, status_file
from tao_sdk.engine.bucket_files import files_of, in_bucket
from tao_sdk.engine.curve_file import leave_curve
from tao_sdk.engine.drain import Keeper
from tao_sdk.engine.engine import Engine
from tao_sdk.model.clock import from_iso, to_iso, utc_now
from tao_sdk.model.errors import PathNotFound, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.plan import Ref
from tao_sdk.model.progress import Pace, Progress, ProgressReader, milestones
from tao_sdk.runner.events import EventFilter
from tao_sdk.store import NewEvent

MOST_AT_ONCE = 16 * MiB  # a second or two of work at the worst, so that a look stays a look
BUCKET_SECONDS = 10.0  # between two looks into a bucket; a job sends its status there once a minute
LONGEST_REST = 4096  # bytes kept of a line that is still being written
RENEWED_SECONDS = 30.0  # a reading that found nothing new is written down only this often


def scan(engine: Engine, job: Job, most: float = MOST_AT_ONCE, seconds: float = math.inf) -> Job:
    """Read on from where the last scan ended, and write down what was found. Two readers at once do not double it.

    Not much more than `most` bytes are read in one call, for `seconds`; the next call goes on.
    """
    return _scan(engine, job, Reading(job, over=job.status.terminal), most, seconds)


def scan_ended(engine: Engine, job: Job, most: float = MOST_AT_ONCE, seconds: float = math.inf) -> Job:
    """As `scan`, of a job that was seen to have ended: what is read now to its end is all that it will ever say."""
    return _scan(engine, job, Reading(job, over=True), most, seconds)


def _scan(engine: Engine, job: Job, reading: Reading, most: float, seconds: float) -> Job:
    row = engine.store.attempt(job.id)
    if row.ref is None:
        return job
    with Keeper(engine, row, reading.cursor) as keeper:
        chunks = keeper.passed_on(_chunks(engine, job, row.ref, reading.cursor))
        reading.read(chunks, most, time.monotonic() + seconds)
    return keep(engine, job, reading, read_status_file(engine, job, reading))


def _chunks(engine: Engine, job: Job, ref: Ref, cursor: str) -> Iterator[LogChunk]:
    yield from engine.backend_of(job).logs(ref, LogRequest(cursor=cursor))


def read_status_file(engine: Engine, job: Job, reading: Reading) -> status_file.Place:
    """Where the log tells no epoch, what is new in the status file is read as well. Up to where it was read then."""
    place = reading.status_file
    if (place.path or not reading.epoch) and is_time(engine, job):
        data, place = status_file.read_on(files_of(engine, job), job.results_dir, place)
        reading.feed(data)
    return place


def keep(engine: Engine, job: Job, reading: Reading, place: status_file.Place) -> Job:
    """The job with what was read of it, written down. Who has read the last of it leaves the curve beside the results."""
    state = {**reading.state(job, utc_now()), "status_file": place.to_json()}
    if not is_news(state, job.progress):
        return replace(job, progress=state)
    found = [one for one in reading.found if one.epoch]
    events = [NewEvent(job.id, "progress", data={"epoch": one.epoch, **one.metrics}) for one in found]
    due = hooks.milestones_due(job, milestones(reading.before.epoch, reading.epoch, hooks.MILESTONE))
    if state["whole"] and not reading.stored.get("whole"):
        leave_curve(job, reading.progress)
    return engine.store.update(replace(job, progress=state), [*events, *due]) or engine.store.get(job.id)


def is_news(state: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """True for what has to be written down: more than that nothing is new since a moment ago."""
    if {**state, "as_of": None} != {**stored, "as_of": None}:
        return True
    now, then = from_iso(state["as_of"]), from_iso(stored.get("as_of"))
    if now is None or then is None:
        return now != then
    return abs((now - then).total_seconds()) > RENEWED_SECONDS


def is_time(engine: Engine, job: Job) -> bool:
    """A folder of this machine is looked into at every scan; a bucket or a folder elsewhere, which costs, now and then."""
    pause = BUCKET_SECONDS if in_bucket(job.results_dir) else engine.backend_of(job).capabilities.files_seconds
    now = time.monotonic()
    if not job.status.terminal and now - engine.file_looks.get(job.id, -pause) < pause:
        return False
    engine.file_looks[job.id] = now
    return True


class Reading:
    """Reads a job's log from where the last reading ended, in bounded memory.

    An unfinished line is carried over to the next one.
    """

    def __init__(self, job: Job, over: bool = False) -> None:
        self.over = over  # the job has ended
        self.stored: Mapping[str, Any] = job.progress if job.progress.get("attempt") == job.attempt else {}
        self.before = Progress.from_json(self.stored)
        self.cursor = str(self.stored.get("cursor", ""))
        self.status_file = status_file.Place.from_json(self.stored.get("status_file") or {})
        self.whole = False  # the log was read to its end
        self.saving = bool(self.stored.get("saving"))  # the command is over, and its outputs are on their way
        self._reader, self._filter = ProgressReader(self.before), EventFilter()
        self.rest = bytes.fromhex(str(self.stored.get("rest", "")))
        self.found: list[Progress] = self._reader.feed(self.rest)

    @property
    def progress(self) -> Progress:
        return self._reader.progress

    @property
    def epoch(self) -> int:
        return self.progress.epoch

    def feed(self, data: bytes) -> None:
        """Take what another source than the log says."""
        other = ProgressReader(self.progress)
        self.found += other.feed(data)
        self._reader = other

    def read(self, chunks: Iterator[LogChunk], most: float, deadline: float) -> None:
        size = 0
        try:
            for chunk in chunks:
                self.take(chunk)
                size += len(chunk.data)
                if size >= most or time.monotonic() >= deadline:
                    return
        except PathNotFound:
            pass  # nothing more will come
        except Unreachable:
            return
        self.whole = True

    def take(self, chunk: LogChunk) -> None:
        data, events = self._filter.feed(chunk.data)
        for event in events:
            self.saving = event.facts.get("stage") == "outputs" if event.name == "stage" else self.saving
        self.found += self._reader.feed(data)
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        self.rest = (data[end:] if end else self.rest + data)[-LONGEST_REST:]
        self.cursor = chunk.cursor

    def state(self, job: Job, now: datetime) -> dict[str, Any]:
        """What the job keeps of its progress, and where reading goes on."""
        pace = Pace.from_json(self.stored.get("pace"))
        as_of = to_iso(now) if self.whole else self.stored.get("as_of")
        return {
            **self.progress.to_json(),
            "attempt": job.attempt,
            "saving": self.saving,
            "cursor": self.cursor,
            "rest": self.rest.hex(),
            "as_of": as_of,
            "whole": self.whole and self.over,
            "pace": pace.seen(self.epoch, now.timestamp()).to_json() if self.whole else pace.to_json(),
        }
