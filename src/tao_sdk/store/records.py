"""Records: jobs, attempts and events as rows, and rows as jobs, attempts and events. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from tao_sdk.model.clock import utc_now
from tao_sdk.model.job import KNOWN_DETAILS, AttemptRow, Event, Job
from tao_sdk.model.log_reading import LogReading
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.model.status import Status
from tao_sdk.store.payload_files import Document, PayloadFiles, to_text

Row = Sequence[Any]
_decode = (
    json.JSONDecoder().raw_decode
)  # half the time of json.loads for the small objects of a listing

# in the order of `job_of`; `spec` and `options` are documents and stand last
JOB_COLUMNS = (
    "id, name, platform, status, message, attempt, exit_code, image, gpu_count, labels, parent, progress, "
    "created, started, ended, seen_at, results_dir, backend_details, cancel_asked, absent_looks, revision, "
    "reason_code, next_attempt_at, spec, options"
)
ENDPOINT = (
    "(SELECT endpoint FROM attempts WHERE job_id = jobs.id AND attempts.number = jobs.attempt)"
)
JOB_FIELDS = (
    f"{JOB_COLUMNS}, {ENDPOINT}"  # what a job is read from; the table has the columns alone
)
ATTEMPT_COLUMNS = "job_id, number, platform, endpoint, store_id, ref, log_cursor, plan"
EVENT_COLUMNS = "seq, job_id, time, kind, status, raw, data"

# what an update may change, in the order of `changes_of`
MUTABLE_COLUMNS = (
    "status", "message", "attempt", "exit_code", "progress", "started", "ended", "seen_at",
    "results_dir",
    "backend_details", "cancel_asked", "absent_looks", "reason_code", "next_attempt_at",
)  # fmt: skip


@dataclass(frozen=True)
class NewEvent:
    """An event before the store has given it its number."""

    job_id: str
    kind: str
    status: Status | None = None
    raw: str = ""
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    time: datetime = field(default_factory=utc_now)


def job_row(job: Job, spec: str, options: str) -> tuple[Any, ...]:
    return (
        job.id, job.name, job.platform, job.status.value, text(job.message), job.attempt,
        job.exit_code,
        text(job.image), job.gpu_count, to_text(job.labels), job.parent,
        to_text(job.reading.to_json()),
        iso(job.created), iso(job.started), iso(job.ended), iso(job.seen_at), text(job.results_dir),
        to_text(job.details), job.cancel_asked, job.absent_looks, job.revision,
        _code(job.reason_code),
        iso(job.next_attempt_at), spec, options,
    )  # fmt: skip


def changes_of(job: Job) -> tuple[Any, ...]:
    return (
        job.status.value, text(job.message), job.attempt, job.exit_code,
        to_text(job.reading.to_json()), iso(job.started),
        iso(job.ended), iso(job.seen_at), text(job.results_dir), to_text(job.details),
        job.cancel_asked,
        job.absent_looks, _code(job.reason_code), iso(job.next_attempt_at),
    )  # fmt: skip


def job_of(row: Row, payloads: PayloadFiles) -> Job:
    details = _object(row[17])
    known = {name: details.pop(name) for name in KNOWN_DETAILS if name in details}
    return Job(
        row[0], row[1], row[2], STATUSES[row[3]], row[4], row[5], row[6], row[7], row[8],
        _object(row[9]), row[10],
        LogReading.from_json(_object(row[11])), datetime.fromisoformat(row[12]), _moment(row[13]),
        _moment(row[14]),
        _moment(row[15]), row[16], details, Document(row[23], payloads),
        Document(row[24], payloads),
        bool(row[18]), row[19], row[20], Reason.read(row[21]), _moment(row[22]), row[25] or "",
        **known,
    )  # fmt: skip


def attempt_row(row: AttemptRow, plan: str) -> tuple[Any, ...]:
    key = row.attempt
    ref = to_text(row.ref.to_json()) if row.ref else None
    return (
        key.job_id,
        key.number,
        key.platform,
        key.endpoint,
        key.store_id,
        ref,
        row.log_cursor,
        plan,
    )


def attempt_of(row: Row, payloads: PayloadFiles) -> AttemptRow:
    attempt = Attempt(row[0], row[1], row[2], row[3], row[4])
    ref = Ref.from_json(json.loads(row[5]), attempt) if row[5] else None
    return AttemptRow(attempt, Document(row[7], payloads), ref, row[6])


def event_row(event: NewEvent) -> tuple[Any, ...]:
    status = event.status.value if event.status else None
    data = to_text(event.data) if event.data else "{}"
    return (event.job_id, iso(event.time), event.kind, status, text(event.raw), data)


def event_of(row: Row) -> Event:
    status = STATUSES[row[4]] if row[4] else None
    return Event(
        row[0], row[1], datetime.fromisoformat(row[2]), row[3], status, row[5], _object(row[6])
    )


@lru_cache(maxsize=16)  # events that are written together have one time
def iso(moment: datetime | None) -> str | None:
    """UTC to the microsecond, so that a moment comes back as it went in."""
    return moment.astimezone(timezone.utc).isoformat() if moment else None


def text(words: str) -> str:
    """`words` as SQLite can keep them: what is no proper Unicode (a byte of another encoding) is
    shown escaped.
    """
    return words if words.isascii() else words.encode("utf-8", "backslashreplace").decode()


STATUSES = {status.value: status for status in Status}


def _code(reason: Reason | None) -> str | None:
    return reason.value if reason else None


def _moment(words: str | None) -> datetime | None:
    return datetime.fromisoformat(words) if words else None


def _object(words: str) -> dict[str, Any]:
    return {} if words == "{}" else _decode(words)[0]
