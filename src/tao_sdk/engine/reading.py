"""Reading: whoever looks at live jobs also reads their progress.

All jobs of a look share its time, and a backend may allow a look only so many logs. Those that were
read longest ago come first, and the next look reads the rest. `progress.as_of` says how old a
number is.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from tao_sdk.backends.asking import ask_side_by_side
from tao_sdk.backends.contract import AnyBackend, ReadsManyLogs
from tao_sdk.engine import progress
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.look import look
from tao_sdk.engine.progress import Reading
from tao_sdk.model.errors import TaoError
from tao_sdk.model.job import Endpoint, Job
from tao_sdk.model.plan import Ref

LOOK_SECONDS = 1.0  # the longest time that reading adds to a look


def look_and_read(engine: Engine, jobs: Iterable[Job]) -> list[Job]:
    """Look at the jobs, then read their progress."""
    return read(engine, [one.job for one in look(engine, jobs)])


def read(engine: Engine, jobs: Sequence[Job], seconds: float = LOOK_SECONDS) -> list[Job]:
    """The same jobs, with what is new in their logs. Reading stops after `seconds`."""
    deadline = time.monotonic() + seconds
    read_jobs: dict[str, Job] = {}
    for endpoint, group in _by_endpoint([job for job in jobs if may_have_news(job)]).items():
        with suppress(TaoError):  # the look has told that it cannot be asked
            backend = engine.backend(*endpoint)
            chosen = _in_turn(engine, group, backend.capabilities.logs_per_look)
            if isinstance(backend, ReadsManyLogs) and len(chosen) > 1:
                read_jobs.update(_read_together(engine, backend, chosen))
            else:
                read_jobs.update(_read_each(engine, backend, chosen, deadline))
    return [read_jobs.get(job.id, job) for job in jobs]


def may_have_news(job: Job) -> bool:
    """True if the job has begun and its log may have more to read: it is live, or was not read to
    its end.
    """
    if job.started is None or job.imported_from:
        return False
    return not (job.status.terminal and job.reading.whole and job.reading.attempt == job.attempt)


def _by_endpoint(jobs: Sequence[Job]) -> Mapping[Endpoint, list[Job]]:
    groups: dict[Endpoint, list[Job]] = defaultdict(list)
    for job in sorted(jobs, key=as_of):
        groups[job.platform, job.endpoint].append(job)
    return groups


def _in_turn(engine: Engine, jobs: Sequence[Job], most: int) -> Sequence[Job]:
    """The jobs whose logs are read now; all where `most` is 0. One whose log gives no answer keeps
    no other from its turn.
    """
    if not most:
        return jobs
    chosen = set(engine.log_turns.take([job.id for job in jobs], most))
    return [job for job in jobs if job.id in chosen]


def as_of(job: Job) -> float:
    """When the job's log was last read to its end, in unix seconds. 0 if never."""
    return job.reading.as_of.timestamp() if job.reading.as_of else 0.0


def _read_each(
    engine: Engine, backend: AnyBackend, jobs: Sequence[Job], deadline: float
) -> dict[str, Job]:
    """Read each log, as many at a time as the backend allows. The first is always read, no other
    begins after the deadline.
    """

    def scanned(job: Job) -> Job:
        left = deadline - time.monotonic()
        if job is jobs[0] or left > 0:
            with suppress(TaoError):  # of this job nothing new can be read now
                return progress.scan(engine, job, seconds=max(left, 0.0))
        return job

    readers = min(backend.capabilities.readers, len(jobs))
    if readers == 1:
        return {job.id: scanned(job) for job in jobs}
    return {job.id: job for job in ask_side_by_side(scanned, jobs, readers)}


def _read_together(engine: Engine, backend: ReadsManyLogs, jobs: Sequence[Job]) -> dict[str, Job]:
    """Read all logs with one query."""
    places: dict[Ref, tuple[Job, Reading]] = {}
    for job in jobs:
        if ref := engine.ref_of(job):
            places[ref] = job, Reading(job)
    for ref, new_log in backend.new_logs(
        {ref: reading.cursor for ref, (_, reading) in places.items()}
    ).items():
        places[ref][1].read(iter(new_log.chunks), math.inf, math.inf)
        places[ref][1].whole = new_log.whole
    read_jobs: dict[str, Job] = {}
    for job, reading in places.values():
        with suppress(TaoError):
            read_jobs[job.id] = progress.keep(engine, job, reading)
    return read_jobs
