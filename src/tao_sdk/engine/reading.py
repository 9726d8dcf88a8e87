"""Reading: whoever looks at live jobs also reads their progress.

All jobs of a look share its time, and a backend may limit the logs of a look. The logs that were
read longest ago come first, and the next look reads the rest. A list leaves out the logs that a
watcher reads. `progress.as_of` says how old a number is.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from tao_sdk.backends.asking import ask_side_by_side
from tao_sdk.backends.contract import AnyBackend, ReadsManyLogs
from tao_sdk.engine import lease, progress
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.look import look
from tao_sdk.engine.progress import Reading
from tao_sdk.model.errors import TaoError
from tao_sdk.model.job import Endpoint, Job
from tao_sdk.model.plan import Ref

LOOK_SECONDS = 1.0  # the longest time that reading adds to a look


LOOKS_FOR_ALL = 8  # lists that together read all logs; with more jobs, a list reads one log


def look_and_read(engine: Engine, jobs: Iterable[Job]) -> list[Job]:
    """Look at the jobs, then read their progress."""
    return read(engine, [one.job for one in look(engine, jobs)])


def look_and_read_due(engine: Engine, jobs: Iterable[Job]) -> list[Job]:
    """Look at all jobs for a list, and read the logs that nobody has read lately."""
    looked = [one.job for one in look(engine, jobs)]
    groups = _by_endpoint([job for job in looked if may_have_news(job)])
    due = [job for endpoint, group in groups.items() for job in _due(engine, endpoint, group)]
    seen = {job.id: job for job in read(engine, due)}
    return [seen.get(job.id, job) for job in looked]


def _due(engine: Engine, endpoint: Endpoint, jobs: Sequence[Job]) -> Sequence[Job]:
    """The jobs of an endpoint whose logs a list reads: all if that costs next to nothing.

    Otherwise every ended job. A live job only if nobody watches the endpoint and its log was not
    read a moment ago. If more are left than a few lists could read, only the one that was read
    longest ago: only a watcher would help.
    """
    try:
        capabilities = engine.backend(*endpoint).capabilities
    except TaoError:  # the look has reported that it cannot be asked
        return ()
    if not capabilities.log_seconds:
        return jobs
    if lease.is_held(engine.store, lease.of_watch(endpoint)):
        return [job for job in jobs if job.status.terminal]
    since = time.time() - capabilities.log_seconds
    due = [job for job in jobs if job.status.terminal or as_of(job) < since]
    is_many = len(due) > LOOKS_FOR_ALL * capabilities.logs_per_look
    return due[:1] if capabilities.logs_per_look and is_many else due


def read(engine: Engine, jobs: Sequence[Job], seconds: float = LOOK_SECONDS) -> list[Job]:
    """Read the new part of the jobs' logs, and return the same jobs. Reading stops after
    `seconds`.
    """
    deadline = time.monotonic() + seconds
    read_jobs: dict[str, Job] = {}
    for endpoint, group in _by_endpoint([job for job in jobs if may_have_news(job)]).items():
        with suppress(TaoError):  # the look has reported that it cannot be asked
            backend = engine.backend(*endpoint)
            chosen = _in_turn(engine, group, backend.capabilities.logs_per_look)
            if isinstance(backend, ReadsManyLogs) and len(chosen) > 1:
                read_jobs.update(_read_together(engine, backend, chosen))
            else:
                read_jobs.update(_read_each(engine, backend, chosen, deadline))
    return [read_jobs.get(job.id, job) for job in jobs]


def may_have_news(job: Job) -> bool:
    """True if the job has begun and its log may have more to read: it is live, or its log was not
    read to its end.
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
    """Choose the jobs whose logs are read now; all if `most` is 0. A job whose log gives no answer
    keeps no other from its turn.
    """
    if not most:
        return jobs
    chosen = set(engine.log_turns.take([job.id for job in jobs], most))
    return [job for job in jobs if job.id in chosen]


def as_of(job: Job) -> float:
    """The unix time when the job's log was last read to its end; 0 if never."""
    return job.reading.as_of.timestamp() if job.reading.as_of else 0.0


def _read_each(
    engine: Engine, backend: AnyBackend, jobs: Sequence[Job], deadline: float
) -> dict[str, Job]:
    """Read each log, as many at a time as the backend allows. The first log is always read; no
    other read begins after the deadline.
    """

    def scanned(job: Job) -> Job:
        left = deadline - time.monotonic()
        if job is jobs[0] or left > 0:
            with suppress(TaoError):  # nothing new can be read of this job now
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
