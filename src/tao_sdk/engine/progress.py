"""Progress: how far a job's training is, read from what is new in its log; a milestone is never skipped.

Where the log tells no epoch, the status.json among the results does (engine/status_file.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tao_sdk.backends.contract import Backend, LogChunk, LogRequest, MiB
from tao_sdk.engine import hooks, status_file
from tao_sdk.engine.bucket_files import files_of, in_bucket
from tao_sdk.engine.engine import Engine
from tao_sdk.model.errors import PathNotFound, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.plan import Ref
from tao_sdk.model.progress import Progress, ProgressReader, milestones
from tao_sdk.runner.events import EventFilter
from tao_sdk.store import NewEvent

MOST_AT_ONCE = 16 * MiB  # a second or two of work at the worst, so that a look stays a look
BUCKET_SECONDS = 10.0  # between two looks into a bucket; a job sends its status there once a minute
LONGEST_REST = 4096  # bytes kept of a line that is still being written


def scan(engine: Engine, job: Job, most: float = MOST_AT_ONCE) -> Job:
    """Read on from where the last scan ended, and write down what was found. Two readers at once do not double it.

    Not much more than `most` bytes are read in one call; the next call goes on.
    """
    ref = engine.ref_of(job)
    if ref is None:
        return job
    kept: Mapping[str, Any] = job.progress if job.progress.get("attempt") == job.attempt else {}
    before = Progress.from_json(kept)
    reading = Reading(ProgressReader(before), str(kept.get("cursor", "")), bytes.fromhex(str(kept.get("rest", ""))))
    reading.read(engine.backend_of(job), ref, most)
    place, told = status_file.Place.from_json(kept.get("status_file") or {}), list(reading.found)
    if (place.path or not reading.epoch) and is_time(engine, job):
        data, place = status_file.read_on(files_of(engine, job), job.results_dir, place)
        told += ProgressReader(told[-1] if told else before).feed(data)
    after = told[-1] if told else before
    state = {
        **after.to_json(), "attempt": job.attempt, "cursor": reading.cursor, "rest": reading.rest.hex(),
        "status_file": place.to_json(),
    }  # fmt: skip
    if state == dict(job.progress):
        return job
    events = [NewEvent(job.id, "progress", data={"epoch": one.epoch, **one.metrics}) for one in told if one.epoch]
    due = hooks.milestones_due(job, milestones(before.epoch, after.epoch, hooks.MILESTONE))
    written = engine.store.update(replace(job, progress=state), [*events, *due])
    return written or engine.store.get(job.id)


def is_time(engine: Engine, job: Job) -> bool:
    """A folder of this machine is looked into at every scan; a bucket or a folder elsewhere, which costs, now and then."""
    pause = BUCKET_SECONDS if in_bucket(job.results_dir) else engine.backend_of(job).capabilities.files_seconds
    now = time.monotonic()
    if not job.status.terminal and now - engine.file_looks.get(job.id, -pause) < pause:
        return False
    engine.file_looks[job.id] = now
    return True


class Reading:
    """Reads a log from a cursor on, in bounded memory, and carries an unfinished line over to the next scan."""

    def __init__(self, reader: ProgressReader, cursor: str, rest: bytes) -> None:
        self.found: list[Progress] = reader.feed(rest)
        self.cursor, self.rest, self.size = cursor, rest, 0
        self._reader, self._filter = reader, EventFilter()

    @property
    def epoch(self) -> int:
        return self._reader.progress.epoch

    def read(self, backend: Backend, ref: Ref, most: float) -> None:
        try:
            for chunk in backend.logs(ref, LogRequest(cursor=self.cursor)):
                self._take(chunk)
                if self.size >= most:
                    return
        except (PathNotFound, Unreachable):
            return

    def _take(self, chunk: LogChunk) -> None:
        data = self._filter.feed(chunk.data)[0]
        self.found += self._reader.feed(data)
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        self.rest = (data[end:] if end else self.rest + data)[-LONGEST_REST:]
        self.cursor, self.size = chunk.cursor, self.size + len(chunk.data)
