"""Records: jobs, attempts and events as rows, and rows as jobs, attempts and events. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, NamedTuple

from tao_sdk.model.clock import utc_now
from tao_sdk.model.job import KNOWN_DETAILS, AttemptRow, Event, Job
from tao_sdk.model.log_reading import LogReading
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.model.status import Status
from tao_sdk.store.payload_files import Document, PayloadFiles, to_text

_decode = json.JSONDecoder().raw_decode  # for small objects twice as fast as json.loads


class JobChanges(NamedTuple):
    """The columns of a job that an update may change. Moments are ISO 8601; progress and
    backend_details are JSON.
    """

    status: str
    message: str
    attempt: int
    exit_code: int | None
    progress: str
    started: str | None
    ended: str | None
    seen_at: str | None
    results_dir: str
    backend_details: str
    cancel_asked: bool
    absent_looks: int
    reason_code: str | None
    next_attempt_at: str | None


class JobRow(NamedTuple):
    """The columns of a job's table and the endpoint of its newest attempt: a job is read from them.

    `spec` and `options` are documents (payload_files.py); labels, progress and backend_details are
    JSON.
    """

    id: str
    name: str
    platform: str
    status: str
    message: str
    attempt: int
    exit_code: int | None
    image: str
    gpu_count: int
    labels: str
    parent: str | None
    progress: str
    created: str
    started: str | None
    ended: str | None
    seen_at: str | None
    results_dir: str
    backend_details: str
    cancel_asked: bool
    absent_looks: int
    revision: int
    reason_code: str | None
    next_attempt_at: str | None
    spec: str
    options: str
    endpoint: str | None = None

    def columns(self) -> tuple[Any, ...]:
        """The values of the table's own columns."""
        return self[:-1]


class AttemptColumns(NamedTuple):
    """The columns of an attempt. `ref` is JSON, `plan` a document."""

    job_id: str
    number: int
    platform: str
    endpoint: str
    store_id: str
    ref: str | None
    log_cursor: str
    plan: str


class EventColumns(NamedTuple):
    """The columns of an event. `seq` is its number in the store; `data` is JSON."""

    seq: int
    job_id: str
    time: str
    kind: str
    status: str | None
    raw: str
    data: str


ENDPOINT = (
    "(SELECT endpoint FROM attempts WHERE job_id = jobs.id AND attempts.number = jobs.attempt)"
)
MUTABLE_COLUMNS = JobChanges._fields
JOB_COLUMNS = ", ".join(JobRow._fields[:-1])
JOB_FIELDS = f"{JOB_COLUMNS}, {ENDPOINT}"
ATTEMPT_COLUMNS = ", ".join(AttemptColumns._fields)
EVENT_COLUMNS = ", ".join(EventColumns._fields)


@dataclass(frozen=True)
class NewEvent:
    """An event before the store has given it its number."""

    job_id: str
    kind: str
    status: Status | None = None
    raw: str = ""
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    time: datetime = field(default_factory=utc_now)


def job_row(job: Job, spec: str, options: str) -> JobRow:
    """A new row. `spec` and `options` are the texts of their documents."""
    return JobRow(
        id=job.id,
        name=job.name,
        platform=job.platform,
        image=to_unicode(job.image),
        gpu_count=job.gpu_count,
        labels=to_text(job.labels),
        parent=job.parent,
        created=job.created.astimezone(timezone.utc).isoformat(),
        revision=job.revision,
        spec=spec,
        options=options,
        **changes_of(job)._asdict(),
    )


def changes_of(job: Job) -> JobChanges:
    return JobChanges(
        status=job.status.value,
        message=to_unicode(job.message),
        attempt=job.attempt,
        exit_code=job.exit_code,
        progress=to_text(job.reading.to_json()),
        started=iso_time(job.started),
        ended=iso_time(job.ended),
        seen_at=iso_time(job.seen_at),
        results_dir=to_unicode(job.results_dir),
        backend_details=to_text(job.details),
        cancel_asked=job.cancel_asked,
        absent_looks=job.absent_looks,
        reason_code=job.reason_code.value if job.reason_code else None,
        next_attempt_at=iso_time(job.next_attempt_at),
    )


def job_of(values: Sequence[Any], payloads: PayloadFiles) -> Job:
    """The job of one row of JOB_FIELDS."""
    row = JobRow(*values)
    details = _read_object(row.backend_details)
    known = {name: details.pop(name) for name in KNOWN_DETAILS if name in details}
    return Job(
        id=row.id,
        name=row.name,
        platform=row.platform,
        status=STATUSES[row.status],
        message=row.message,
        attempt=row.attempt,
        exit_code=row.exit_code,
        image=row.image,
        gpu_count=row.gpu_count,
        labels=_read_object(row.labels),
        parent=row.parent,
        reading=LogReading.from_json(_read_object(row.progress)),
        created=datetime.fromisoformat(row.created),
        started=_read_time(row.started),
        ended=_read_time(row.ended),
        seen_at=_read_time(row.seen_at),
        results_dir=row.results_dir,
        backend_details=details,
        spec=Document(row.spec, payloads),
        options=Document(row.options, payloads),
        cancel_asked=bool(row.cancel_asked),
        absent_looks=row.absent_looks,
        revision=row.revision,
        reason_code=Reason.read(row.reason_code),
        next_attempt_at=_read_time(row.next_attempt_at),
        endpoint=row.endpoint or "",
        **known,
    )


def attempt_row(row: AttemptRow, plan: str) -> AttemptColumns:
    """A new row. `plan` is the text of its document."""
    attempt = row.attempt
    return AttemptColumns(
        job_id=attempt.job_id,
        number=attempt.number,
        platform=attempt.platform,
        endpoint=attempt.endpoint,
        store_id=attempt.store_id,
        ref=to_text(row.ref.to_json()) if row.ref else None,
        log_cursor=row.log_cursor,
        plan=plan,
    )


def attempt_of(values: Sequence[Any], payloads: PayloadFiles) -> AttemptRow:
    """The attempt of one row of ATTEMPT_COLUMNS."""
    row = AttemptColumns(*values)
    attempt = Attempt(row.job_id, row.number, row.platform, row.endpoint, row.store_id)
    ref = Ref.from_json(json.loads(row.ref), attempt) if row.ref else None
    return AttemptRow(attempt, Document(row.plan, payloads), ref, row.log_cursor)


def event_row(event: NewEvent) -> tuple[Any, ...]:
    """A new row, without the number that the store gives it."""
    status = event.status.value if event.status else None
    data = to_text(event.data) if event.data else "{}"
    return (event.job_id, iso_time(event.time), event.kind, status, to_unicode(event.raw), data)


def event_of(values: Sequence[Any]) -> Event:
    """The event of one row of EVENT_COLUMNS."""
    row = EventColumns(*values)
    return Event(
        row.seq,
        row.job_id,
        datetime.fromisoformat(row.time),
        row.kind,
        STATUSES[row.status] if row.status else None,
        row.raw,
        _read_object(row.data),
    )


@lru_cache(maxsize=16)  # events that are written together have one time
def iso_time(moment: datetime | None) -> str | None:
    """UTC to the microsecond, so that a moment is read back unchanged."""
    return moment.astimezone(timezone.utc).isoformat() if moment else None


def to_unicode(words: str) -> str:
    """Return `words` in a form that SQLite can store. A byte of another encoding, which is no
    proper Unicode, is escaped.
    """
    return words if words.isascii() else words.encode("utf-8", "backslashreplace").decode()


STATUSES = {status.value: status for status in Status}


def _read_time(words: str | None) -> datetime | None:
    return datetime.fromisoformat(words) if words else None


def _read_object(words: str) -> dict[str, Any]:
    return {} if words == "{}" else _decode(words)[0]
