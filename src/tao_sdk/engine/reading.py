"""Reading: the progress of jobs that live, as of now, by whoever looks at them.

Many jobs share the time that one look may take, those that were read longest ago first; what there was no time for is
read at the next look, and `progress.as_of` tells since when a number is.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from tao_sdk.backends.contract import AnyBackend, ReadsManyLogs
from tao_sdk.engine import progress
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.look import look
from tao_sdk.engine.progress import Reading
from tao_sdk.model.errors import TaoError
from tao_sdk.model.job import Endpoint, Job
from tao_sdk.model.plan import Ref

LOOK_SECONDS = 1.0  # that reading may add to a look


def look_and_read(engine: Engine, jobs: Iterable[Job]) -> list[Job]:
    """The jobs as they now are, with their progress as of now."""
    return read(engine, [one.job for one in look(engine, jobs)])


def read(engine: Engine, jobs: Sequence[Job], seconds: float = LOOK_SECONDS) -> list[Job]:
    """The same jobs with the progress that is new in their logs, as far as `seconds` suffice."""
    deadline = time.monotonic() + seconds
    found: dict[str, Job] = {}
    for endpoint, group in _by_endpoint([job for job in jobs if may_have_news(job)]).items():
        with suppress(TaoError):  # the look has told that it cannot be asked
            backend = engine.backend(*endpoint)
            if isinstance(backend, ReadsManyLogs) and len(group) > 1:
                found.update(_read_together(engine, backend, group))
            else:
                found.update(_read_each(engine, backend, group, deadline))
    return [found.get(job.id, job) for job in jobs]


def may_have_news(job: Job) -> bool:
    """True for a job that has begun and whose log was not read to its end after its own."""
    if job.started is None or job.imported_from:
        return False
    return not (job.status.terminal and job.reading.whole and job.reading.attempt == job.attempt)


def _by_endpoint(jobs: Sequence[Job]) -> Mapping[Endpoint, list[Job]]:
    groups: dict[Endpoint, list[Job]] = defaultdict(list)
    for job in sorted(jobs, key=as_of):
        groups[job.platform, job.endpoint].append(job)
    return groups


def as_of(job: Job) -> float:
    """When its log was last read to its end, in unix seconds; 0 before."""
    return job.reading.as_of.timestamp() if job.reading.as_of else 0.0


def _read_each(engine: Engine, backend: AnyBackend, jobs: Sequence[Job], deadline: float) -> dict[str, Job]:
    """As many side by side as the place takes. At least one is read, and none begun after the deadline."""

    def scanned(job: Job) -> Job:
        left = deadline - time.monotonic()
        if job is jobs[0] or left > 0:
            with suppress(TaoError):  # of this job nothing new can be read now
                return progress.scan(engine, job, seconds=max(left, 0.0))
        return job

    readers = min(backend.capabilities.readers, len(jobs))
    if readers == 1:
        return {job.id: scanned(job) for job in jobs}
    with ThreadPoolExecutor(readers, "tao-reading") as pool:
        return {job.id: job for job in pool.map(scanned, jobs)}


def _read_together(engine: Engine, backend: ReadsManyLogs, jobs: Sequence[Job]) -> dict[str, Job]:
    """All of them in one question."""
    places: dict[Ref, tuple[Job, Reading]] = {}
    for job in jobs:
        if ref := engine.ref_of(job):
            places[ref] = job, Reading(job)
    for ref, new in backend.new_logs({ref: reading.cursor for ref, (_, reading) in places.items()}).items():
        places[ref][1].read(iter(new.chunks), math.inf, math.inf)
        places[ref][1].whole = new.whole
    found: dict[str, Job] = {}
    for job, reading in places.values():
        with suppress(TaoError):
            found[job.id] = progress.keep(engine, job, reading)
    return found
