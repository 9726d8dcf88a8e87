"""Live jobs: jobs that have not ended, read from the database only when they have changed.

A watcher asks for the live jobs again and again, while hardly any changes. A job is read anew only
if its revision has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tao_sdk.model.job import Endpoint, Job
from tao_sdk.store import listing
from tao_sdk.store.database import ChangeMark, Database

JobReader = Callable[[listing.Query], list[Job]]


class LiveJobs:
    """Remembers the live jobs of each endpoint that a caller has asked about."""

    def __init__(self, database: Database, read_jobs: JobReader) -> None:
        self._db, self._read_jobs = database, read_jobs
        self._known: dict[Endpoint, dict[str, Job]] = {}
        self._endpoints: tuple[ChangeMark | None, list[Endpoint]] = (None, [])

    def at_endpoint(self, endpoint: Endpoint) -> list[Job]:
        """The live jobs whose newest attempt is at that endpoint, newest first."""
        revisions: dict[str, int] = dict(self._read_rows(listing.live_revisions(*endpoint)))
        known = self._known.get(endpoint, {})
        changed = [job_id for job_id in revisions if not is_current(known, job_id, revisions)]
        jobs = {**known, **self._read_by_id(changed)}
        current = {job_id: jobs[job_id] for job_id in revisions if job_id in jobs}
        self._known[endpoint] = current
        return list(current.values())

    def endpoints(self) -> list[Endpoint]:
        """The endpoints with live jobs. Reads no table while nobody writes to the database."""
        mark = self._db.change_mark()
        known_mark, endpoints = self._endpoints
        if mark != known_mark:
            endpoints = self._read_rows(listing.live_endpoints())
            self._endpoints = mark, endpoints
        return list(endpoints)

    def rented_after_end(self) -> list[str]:
        """The ids of the ended jobs that still rent their places."""
        return [job_id for (job_id,) in self._read_rows(listing.rented_after_end())]

    def _read_by_id(self, job_ids: Sequence[str]) -> dict[str, Job]:
        """The jobs of these ids that are still there."""
        jobs: list[Job] = []
        for some_ids in listing.portions(job_ids):
            jobs += self._read_jobs(listing.by_id(some_ids))
        return {job.id: job for job in jobs}

    def _read_rows(self, query: listing.Query) -> list[Any]:
        with self._db.read() as db:
            return db.execute(query.sql, query.parameters).fetchall()


def is_current(known: Mapping[str, Job], job_id: str, revisions: Mapping[str, int]) -> bool:
    return job_id in known and known[job_id].revision == revisions[job_id]
