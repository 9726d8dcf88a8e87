"""Progress: how far a job's training is, read from the new part of its log. No milestone is
skipped.

If the log names no epoch, the status.json among the results does (engine/status_file.py). Once the
log names one, only the log counts, so the order of reading does not matter. Not here: when it is
read (engine/reading.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from tao_sdk.backends.contract import LogChunk, LogRequest, MiB
from tao_sdk.engine import hooks, status_file
from tao_sdk.engine.bucket_files import files_of, in_bucket
from tao_sdk.engine.curve_file import leave_curve
from tao_sdk.engine.drain import Keeper
from tao_sdk.engine.engine import Engine
from tao_sdk.model.clock import utc_now, whole_milliseconds
from tao_sdk.model.errors import PathNotFound, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.log_reading import FilePlace, LogReading
from tao_sdk.model.pace import Pace
from tao_sdk.model.plan import Ref
from tao_sdk.model.progress import EpochMetrics, crossed_milestones
from tao_sdk.model.progress_reader import ProgressReader
from tao_sdk.runner.events import EventFilter
from tao_sdk.store import NewEvent

MOST_AT_ONCE = 16 * MiB  # bytes: at worst a second or two of work, so a look stays short
BUCKET_SECONDS = 10.0  # between two looks into a bucket; a job sends its status there once a minute
EPOCHS_AT_ONCE = 5000  # in memory, before they are written to the store
RENEWED_SECONDS = 30.0  # how often a reading without news is written to the store


def scan(engine: Engine, job: Job, most: float = MOST_AT_ONCE, seconds: float = math.inf) -> Job:
    """Read on from where the last scan ended, and store the new progress. Two readers at once do
    not double it.

    One call reads not much more than `most` bytes, for `seconds`; the next call continues.
    """
    return _scan(engine, job, Reading(job, over=job.status.terminal), most, seconds)


def scan_ended(
    engine: Engine, job: Job, most: float = MOST_AT_ONCE, seconds: float = math.inf
) -> Job:
    """Like `scan`, for a job that a look has seen end: its log is complete, so once read to its end
    it is never read again.
    """
    return _scan(engine, job, Reading(job, over=True), most, seconds)


def _scan(engine: Engine, job: Job, reading: Reading, most: float, seconds: float) -> Job:
    row = engine.store.attempt(job.id)
    if row.ref is None:
        return job
    deadline = time.monotonic() + seconds
    with Keeper(engine, row, reading.cursor) as keeper:
        chunks = keeper.passed_on(_chunks(engine, job, row.ref, reading.cursor))
        reading.read(chunks, most, deadline, EPOCHS_AT_ONCE)
        while reading.may_go_on(most, deadline):
            written = _write(engine, job, reading.result(), reading)
            if written is None:  # another reader was faster
                return engine.store.get(job.id)
            job = written
            reading.go_on(written)
            reading.read(chunks, most, deadline, EPOCHS_AT_ONCE)
    read_status_file(engine, job, reading)
    return keep(engine, job, reading)


def _chunks(engine: Engine, job: Job, ref: Ref, cursor: str) -> Iterator[LogChunk]:
    yield from engine.backend_of(job).logs(ref, LogRequest(cursor=cursor))


def read_status_file(engine: Engine, job: Job, reading: Reading) -> None:
    """Read the new part of the status file, if the log names no epoch and a look is due."""
    if not reading.log_names_epochs and is_time(engine, job):
        data, place = status_file.read_on(
            files_of(engine, job), job.results_dir, reading.status_file
        )
        reading.take_status_file(data, place)


def keep(engine: Engine, job: Job, reading: Reading) -> Job:
    """Store a reading and return the job with it. The reader that finishes the log also leaves the
    curve beside the results.
    """
    result = reading.result()
    pause = engine.backend_of(job).capabilities.log_seconds or RENEWED_SECONDS
    if not is_news(result, job.reading, pause):
        return replace(job, reading=result)
    if result.whole and not reading.before.whole:
        leave_curve(job, result.progress)
    return _write(engine, job, result, reading) or engine.store.get(job.id)


def _write(engine: Engine, job: Job, result: LogReading, reading: Reading) -> Job | None:
    """Store the new epochs and the hooks that they make due, and return the job. None, with nothing
    written, if the job was changed meanwhile.
    """
    now, reported = utc_now(), reading.before.reported_epoch
    epochs = [one for one in reading.epochs if one.epoch and one.epoch >= reported]
    events = [
        NewEvent(job.id, "progress", data={"epoch": one.epoch, **one.metrics}, time=now)
        for one in epochs
    ]
    due = hooks.milestones_due(
        job, crossed_milestones(reported, result.reported_epoch, hooks.MILESTONE)
    )
    return engine.store.update(replace(job, reading=result), [*events, *due])


def is_news(reading: LogReading, stored: LogReading, pause: float) -> bool:
    """True if the reading has to be stored: more has changed than its time, or `pause` seconds have
    passed since the stored one.
    """
    if replace(reading, as_of=None) != replace(stored, as_of=None):
        return True
    now, then = reading.as_of, stored.as_of
    if now is None or then is None:
        return now != then
    return abs((now - then).total_seconds()) >= pause


def is_time(engine: Engine, job: Job) -> bool:
    """True if the status file is read now.

    A folder of this machine is read at every scan. A bucket or a folder elsewhere costs time, so it
    is read only now and then, and once more after the job has ended. Files on demand are never
    read.
    """
    pause = BUCKET_SECONDS
    if not in_bucket(job.results_dir):
        capabilities = engine.backend_of(job).capabilities
        if capabilities.files_on_demand:
            return False
        pause = capabilities.files_seconds
    now = time.monotonic()
    if not job.status.terminal and now - engine.results_read_at.get(job.id, -pause) < pause:
        return False
    engine.results_read_at[job.id] = now
    return True


class Reading:
    """Reads a job's log from where the last reading ended, in bounded memory.

    An unfinished line is carried over to the next reading.
    """

    def __init__(self, job: Job, over: bool = False) -> None:
        self._attempt = job.attempt
        self._over = over  # the job has ended
        same = job.reading.attempt == job.attempt
        self.before = job.reading if same else LogReading(attempt=job.attempt, whole=False)
        self.cursor = self.before.cursor
        self.status_file = self.before.status_file
        self.whole = False  # the log was read to its end
        self._saving = self.before.saving
        self.epochs: list[EpochMetrics] = []  # the new ones
        self._size = 0  # bytes read
        self._filter = EventFilter()
        self._log = ProgressReader(self.before.log_progress, is_running=self.before.pace.is_running)
        self._file = ProgressReader(self.before.file_progress)
        self._take_log(self.before.rest)

    @property
    def log_names_epochs(self) -> bool:
        return self._log.progress.epoch > 0

    def read(
        self,
        chunks: Iterator[LogChunk],
        most: float,
        deadline: float,
        most_epochs: float = math.inf,
    ) -> None:
        """Read until `most` bytes, `most_epochs` or the `deadline` (of time.monotonic) are reached,
        or the log ends.
        """
        try:
            for chunk in chunks:
                self._take_log(chunk.data)
                self._size += len(chunk.data)
                self.cursor = chunk.cursor
                if (
                    self._size >= most
                    or len(self.epochs) >= most_epochs
                    or time.monotonic() >= deadline
                ):
                    return
        except PathNotFound:
            pass  # nothing more will come
        except Unreachable:
            return
        self.whole = True

    def may_go_on(self, most: float, deadline: float) -> bool:
        """True if the last `read` stopped only because it had found many epochs."""
        many = not self.whole and len(self.epochs) >= EPOCHS_AT_ONCE
        return many and self._size < most and time.monotonic() < deadline

    def go_on(self, job: Job) -> None:
        """Begin the next part. `job` has everything stored that was read until now."""
        self.before, self.epochs = job.reading, []

    def take_status_file(self, data: bytes, place: FilePlace) -> None:
        self.epochs += self._file.feed_epochs(data)
        self.status_file = place

    def _take_log(self, data: bytes) -> None:
        text, events = self._filter.feed(data)
        for event in events:
            if event.name == "stage":
                self._saving = event.facts.get("stage") == "outputs"
        self.epochs += self._log.feed_epochs(text)

    def result(self) -> LogReading:
        """Return the progress to store, and where reading continues."""
        now = whole_milliseconds(utc_now())
        reading = LogReading(
            log_progress=self._log.progress,
            file_progress=self._file.progress,
            attempt=self._attempt,
            cursor=self.cursor,
            rest=self._log.unfinished + self._filter.held,
            as_of=now if self.whole else self.before.as_of,
            whole=self.whole and self._over,
            pace=self.before.pace,
            status_file=self.status_file,
            saving=self._saving,
        )
        epoch = reading.progress.epoch
        reported_epoch = max(epoch, self.before.reported_epoch)
        return replace(reading, pace=self._pace(epoch, now), reported_epoch=reported_epoch)

    def _pace(self, epoch: int, now: datetime) -> Pace:
        """The pace, with this look added if the log was read to its end."""
        if not self.whole:
            return self.before.pace
        look_before = self.before.as_of.timestamp() if self.before.as_of else None
        source = self._log if self.log_names_epochs else self._file
        return self.before.pace.add_look(epoch, now.timestamp(), look_before, source.is_running)
