"""Job, Event, AttemptRow: the records of a job that the store has and the API returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from tao_sdk.model.clock import from_iso, to_iso, utc_now
from tao_sdk.model.log_reading import UNREAD, LogReading
from tao_sdk.model.plan import Attempt, Ref, ranks_of, start_folder_of
from tao_sdk.model.progress import Progress
from tao_sdk.model.reasons import Reason
from tao_sdk.model.status import Standing, Status
from tao_sdk.model.words import Why

Endpoint = tuple[str, str]  # a platform, and which of its places: what one look of a backend covers


# fields that are stored with the details
KNOWN_DETAILS = (
    "released",
    "imported_from",
    "results_at",
    "asked_retries",
    "attempt_started",
    "price_per_hour",
    "rented",
)


@dataclass(frozen=True)
class Job:
    """A job as it was when it was looked up; `client.get_job(id)` looks again.

    `status` is what was known at `seen_at`; `results_dir` is where the outputs are, as the backend
    sees it.
    """

    id: str
    name: str
    platform: str
    status: Status = Status.PENDING
    message: str = ""
    attempt: int = 1
    exit_code: int | None = None
    image: str = ""
    gpu_count: int = 0
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    parent: str | None = None
    # of its log; `progress` is what that says
    reading: LogReading = field(default=UNREAD, repr=False)
    created: datetime = field(default_factory=utc_now)
    started: datetime | None = None
    ended: datetime | None = None
    seen_at: datetime | None = None
    results_dir: str = ""
    backend_details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)  # JobSpec.to_json
    options: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    cancel_asked: bool = False
    absent_looks: int = 0
    revision: int = 0  # grows with every change; acting on a job is a compare-and-set on it
    # the reason for its status, for programs; `message` says it to people
    reason_code: Reason | None = None
    next_attempt_at: datetime | None = None  # its newest attempt failed, and another follows then
    endpoint: str = ""  # which of the platform's places it lives on, as the backend names it
    # that place's name in config.yaml, if it has one
    endpoint_name: str = field(default="", compare=False)
    released: bool = False  # nothing of it is left at its backend
    imported_from: str = ""  # the store of the published SDK that started it and alone can end it
    # where to fetch its results from; "" when they are on this machine or in a bucket
    results_at: str = ""
    asked_retries: int = 0  # retries requested by a person; they use up nothing of its budget
    attempt_started: str = ""  # ISO 8601; when a further attempt began, `started` is of the first
    price_per_hour: float = 0.0  # US dollars, of what it rents; 0 if it rents nothing
    rented: bool = False  # its place costs money until it is released

    @property
    def details(self) -> dict[str, Any]:
        """`backend_details` and the KNOWN_DETAILS that are set, as they are stored and shown."""
        known = {name: getattr(self, name) for name in KNOWN_DETAILS}
        return {**self.backend_details, **{name: value for name, value in known.items() if value}}

    @property
    def standing(self) -> Standing:
        """The part of the job that `advance` needs to judge the next look."""
        return Standing(
            self.status,
            self.message,
            self.exit_code,
            self.cancel_asked,
            self.absent_looks,
            self.reason_code,
            self.next_attempt_at,
        )

    def with_reason(self, why: Why) -> Job:
        """Return the job with another reason and its sentence."""
        return replace(self, reason_code=why.code, message=why.text)

    @property
    def waits_for_next_attempt(self) -> bool:
        """True if its newest attempt has failed, and another is to follow."""
        return self.status is Status.PENDING and self.next_attempt_at is not None

    @property
    def is_still_rented(self) -> bool:
        """True if the job has ended and its place still costs money."""
        return self.rented and self.status.terminal

    @property
    def current_message(self) -> str:
        """The message; "saving outputs" if the command is over and its outputs are on their way. It
        says so if an ended job's place still costs money.
        """
        if self.is_still_rented:
            return f"{self.message}; its place is still rented".removeprefix("; ")
        saving = self.reading.saving and self.reading.attempt == self.attempt
        if saving and self.status is Status.RUNNING:
            return "saving outputs"
        return self.message

    @property
    def progress(self) -> Progress:
        """The progress when the log was last read. The time left is estimated if the job does not
        report it. It is None for a paused job, and for one whose next epoch is overdue.
        """
        known = self.reading.progress
        if self.status is Status.PAUSED:  # its time left does not go on
            return replace(known, eta_seconds=None)
        if self.status.terminal or known.as_of is None:
            return known
        if self.silent_seconds is not None:
            return replace(known, eta_seconds=None)
        if known.eta_seconds is not None:
            return known
        left = self.reading.pace.seconds_left(
            known.epochs, self._pace_began, known.as_of.timestamp()
        )
        return replace(known, eta_seconds=left)

    @property
    def silent_seconds(self) -> float | None:
        """The seconds from its newest epoch to the last look at its log, if the next epoch is
        overdue; else None.
        """
        pace, as_of = self.reading.pace, self.reading.progress.as_of
        if as_of is None or pace.latest is None or self.status is not Status.RUNNING:
            return None
        now = as_of.timestamp()
        return now - pace.latest[1] if pace.is_overdue(self._pace_began, now) else None

    @property
    def _pace_began(self) -> float | None:
        """The time (unix seconds) when the pace of its epochs begins, or None if it is not
        known.
        """
        return self.started.timestamp() if self.started and self.attempt == 1 else None

    @property
    def newest_start(self) -> datetime | None:
        """The time when its newest attempt began; None before, and if it was not stored."""
        if self.attempt == 1:
            return self.started
        return from_iso(self.attempt_started)

    @property
    def place(self) -> str:
        """The name of the place where it lives: that of its endpoint, else its platform."""
        return self.endpoint_name or self.platform

    def to_json(self, *, history: bool = True) -> dict[str, Any]:
        """The job object of `--json`, schema 1: fields may be added, never removed. Without
        `history`, its progress lacks that key.
        """
        progress = self.progress.to_json()
        if not history:
            del progress["history"]
        return {
            "schema": 1,
            "id": self.id,
            "name": self.name,
            "platform": self.platform,
            "endpoint": self.endpoint,
            "endpoint_name": self.endpoint_name,
            "status": self.status.value,
            "message": self.current_message,
            "reason_code": self.reason_code.value if self.reason_code else None,
            "next_attempt_at": to_iso(self.next_attempt_at),
            "attempt": self.attempt,
            "exit_code": self.exit_code,
            "image": self.image,
            "gpu_count": self.gpu_count,
            "labels": dict(self.labels),
            "parent": self.parent,
            "progress": progress,
            "created": to_iso(self.created),
            "started": to_iso(self.started),
            "ended": to_iso(self.ended),
            "seen_at": to_iso(self.seen_at),
            "results_dir": self.results_dir,
            "backend_details": self.details,
        }


@dataclass(frozen=True)
class JobStatus:
    """The answer of get_job_status: the status, the backend's words, and when that was seen."""

    job_id: str
    status: Status
    message: str = ""
    updated_at: str = ""  # ISO 8601, UTC
    reason_code: Reason | None = None  # for programs, which test it instead of the message


@dataclass(frozen=True)
class AttemptRow:
    """One attempt in the store: its key, its plan (Plan.to_json), and its ref once that is
    known.
    """

    attempt: Attempt
    plan: Mapping[str, Any] = field(repr=False)
    ref: Ref | None = None  # None: submit has not been confirmed; find and adopt, or submit again
    log_cursor: str = ""  # the sizes and cursors of the log's copies (engine/drain.py)

    @property
    def ranks(self) -> int:
        """The number of its logs."""
        return ranks_of(self.plan)

    @property
    def start_folder(self) -> str:
        """The folder of this machine that a command without files started in, or ""."""
        return start_folder_of(self.plan)


@dataclass(frozen=True)
class Event:
    """Something that happened to a job. `seq` grows through the whole store, so a reader can ask
    for the newer ones.
    """

    seq: int
    job_id: str
    time: datetime
    kind: str  # docs/jobs.md lists them
    status: Status | None = None
    raw: str = ""  # the backend's own words
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        return {
            "seq": self.seq,
            "job": self.job_id,
            "time": to_iso(self.time),
            "kind": self.kind,
            "status": self.status.value if self.status else None,
            "raw": self.raw,
            "data": dict(self.data),
        }
