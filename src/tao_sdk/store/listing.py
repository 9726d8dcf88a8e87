"""Listing: the query that finds jobs, newest first. Its time depends on the number of jobs to
return, and not on the number in the store.

One index answers each filter alone. The index's entries end with the job's number, so no filter
needs sorting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tao_sdk.model.status import Status
from tao_sdk.store.records import ENDPOINT, JOB_FIELDS

Parameter = str | int
NO_LIMIT = -1
MOST_PARAMETERS = 500  # of one query; SQLite takes at least 999
MOST = 2**63 - 1  # the largest number that SQLite takes
LIVE = tuple(status for status in Status if not status.terminal)
LIVE_WORDS = tuple(status.value for status in LIVE)
ENDED_WORDS = tuple(status.value for status in Status if status.terminal)


class Query(NamedTuple):
    """SQL and its parameters."""

    sql: str
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """A filter: the jobs that match every part given."""

    statuses: Collection[Status] = ()
    platform: str | None = None
    endpoint: str | None = None  # of the newest attempt
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    parent: str | None = None
    limit: int | None = None


_LIVE_ATTEMPTS = (
    "FROM jobs JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt "
    f"WHERE jobs.status IN ({', '.join('?' * len(LIVE))})"
)


def query(wanted: Wanted) -> Query:
    row_by_row = wanted.labels or wanted.parent is not None or wanted.endpoint is not None
    if row_by_row or not (wanted.statuses or wanted.platform):
        return _query_by_label(wanted)
    return _query_by_status(wanted)


def live_revisions(platform: str, endpoint: str) -> Query:
    """The ids and revisions of the live jobs whose newest attempt is at that endpoint."""
    sql = (
        f"SELECT jobs.id, jobs.revision {_LIVE_ATTEMPTS} "
        "AND attempts.platform = ? AND attempts.endpoint = ? ORDER BY jobs.number DESC"
    )
    return Query(sql, (*LIVE_WORDS, platform, endpoint))


def live_endpoints() -> Query:
    return Query(
        f"SELECT DISTINCT attempts.platform, attempts.endpoint {_LIVE_ATTEMPTS}", LIVE_WORDS
    )


def rented_after_end() -> Query:
    """The ids of the ended jobs that still rent their places. Its condition is that of the index
    `rented_jobs`.
    """
    places = ", ".join("?" * len(ENDED_WORDS))
    sql = f"SELECT id FROM jobs WHERE instr(backend_details, '\"rented\"') AND status IN ({places})"
    return Query(sql, ENDED_WORDS)


def by_id(job_ids: Sequence[str]) -> Query:
    """The query for the jobs of one portion of ids."""
    places = ", ".join("?" * len(job_ids))
    return Query(f"SELECT {JOB_FIELDS} FROM jobs WHERE id IN ({places})", tuple(job_ids))


def portions(job_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the ids in portions that one query takes."""
    for start in range(0, len(job_ids), MOST_PARAMETERS):
        yield job_ids[start : start + MOST_PARAMETERS]


def _query_by_label(wanted: Wanted) -> Query:
    """Search by the first label, or the parent, or all jobs. Check the other parts row by row."""
    labels = list(wanted.labels.items())
    tables = [f"labels AS l{n}" for n in range(len(labels))] + ["jobs"]
    terms: list[str] = []
    parameters: list[Parameter] = []
    for n, (key, value) in enumerate(labels):
        terms += [
            f"l{n}.key = ?",
            f"l{n}.value = ?",
            f"l{n}.number = {'jobs' if n == 0 else 'l0'}.number",
        ]
        parameters += [key, value]
    for term, values in _conditions(wanted):
        terms.append(term)
        parameters += values
    number = "l0.number" if labels else "jobs.number"
    where = f"WHERE {' AND '.join(terms)}" if terms else ""
    sql = (
        f"SELECT {JOB_FIELDS} FROM {' CROSS JOIN '.join(tables)} {where} "
        f"ORDER BY {number} DESC LIMIT ?"
    )
    return Query(sql, (*parameters, row_limit(wanted.limit)))


def _conditions(wanted: Wanted) -> list[tuple[str, list[Parameter]]]:
    terms: list[tuple[str, list[Parameter]]] = []
    if wanted.parent is not None:
        terms.append(("jobs.parent = ?", [wanted.parent]))
    if wanted.statuses:
        marks = ", ".join("?" * len(wanted.statuses))
        terms.append((f"+jobs.status IN ({marks})", [status.value for status in wanted.statuses]))
    if wanted.platform is not None:
        terms.append(("+jobs.platform = ?", [wanted.platform]))
    if wanted.endpoint is not None:
        terms.append((f"{ENDPOINT} = ?", [wanted.endpoint]))
    return terms


def _query_by_status(wanted: Wanted) -> Query:
    """Take the newest of each status, and of those the newest: no status' index is read further
    than the limit.
    """
    branch = "SELECT number FROM jobs WHERE status = ?"
    shared: list[Parameter] = []
    if wanted.platform is not None:
        branch += " AND platform = ?"
        shared.append(wanted.platform)
    branch = f"SELECT * FROM ({branch} ORDER BY number DESC LIMIT ?)"
    statuses = list(dict.fromkeys(wanted.statuses)) or list(Status)
    parameters = [
        parameter
        for status in statuses
        for parameter in (status.value, *shared, row_limit(wanted.limit))
    ]
    numbers = " UNION ALL ".join([branch] * len(statuses))
    sql = f"SELECT {JOB_FIELDS} FROM jobs WHERE number IN ({numbers}) ORDER BY number DESC LIMIT ?"
    return Query(sql, (*parameters, row_limit(wanted.limit)))


def row_limit(limit: int | None) -> int:
    """The number for LIMIT; None is no limit."""
    if limit is None:
        return NO_LIMIT
    return min(max(0, limit), MOST)
