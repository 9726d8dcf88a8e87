"""Submit: check, store the attempt, call the backend, then confirm; in doubt, find and adopt.

A refused job leaves no row, nor does one of which nothing was sent. A job whose start is in doubt
keeps its row, Pending, and the next look settles it: our id is minted and stored before the backend
is called, so no second copy is ever started. An attempt whose submit met an unexpected error is not
handed over again, because it would meet the error again: the next look adopts it or ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tao_sdk.backends.contract import AnyBackend, cancel_one, read_plan
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.repeated import job_of_key, key_of
from tao_sdk.model import words
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import (
    JobNotFound,
    KeyInUse,
    Refused,
    StoreError,
    TaoError,
    Unreachable,
)
from tao_sdk.model.fields import plain_value, settings_of
from tao_sdk.model.finding import Finding, Severity, refuse_errors
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.plan import Attempt, Plan, Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.model.status import Status
from tao_sdk.model.words import Why
from tao_sdk.store import NewEvent

if TYPE_CHECKING:
    from tao_sdk.engine.prepare import Planned, Request
    from tao_sdk.model.idempotency import SubmitKey

SUBMIT_LEASE_SECONDS = 120.0  # after them, another client may finish an abandoned submit
GRACE = timedelta(seconds=10)
BROKEN = "submit-broken"  # the event kind of an unexpected error in a submit


@dataclass(frozen=True)
class Submission:
    """A submitted job, with the findings and notes about it."""

    job: Job
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    repeated: bool = False  # an earlier submit with the same idempotency key started the job


OnStored = Callable[[Submission], None]


def submit(engine: Engine, request: Request, on_stored: OnStored | None = None) -> Submission:
    """Submit the job and return it. `on_stored` is called once its row is stored, before the
    backend hears of it.

    Raises Refused, SpecError, Unreachable: then nothing was started, and no row is left.

    A lost reply does not raise: the job is returned Pending, and the next look finds out. A request
    with the idempotency key of an earlier one starts nothing, and returns that one's job.
    """
    from tao_sdk.engine.prepare import plan_and_check  # looking at jobs does not need it

    key = key_of(request)
    if earlier := job_of_key(engine, key):
        return repeated(engine, earlier)
    planned = plan_and_check(engine, request)
    refuse_errors(planned.findings)
    try:
        job = keep(engine, planned, request, key)
    except KeyInUse:  # another process with the same key was faster
        if earlier := job_of_key(engine, key):
            return repeated(engine, earlier)
        raise
    warnings = tuple(
        finding for finding in planned.findings if finding.severity is Severity.WARNING
    )
    stored = Submission(job, warnings, planned.plan.notes)
    if on_stored:
        on_stored(stored)
    return replace(stored, job=hand_over(engine, job, planned.plan, planned.secrets))


def repeated(engine: Engine, job_id: str) -> Submission:
    """The answer to a repeated submit: the job of the first one."""
    note = f"{job_id} was submitted with this idempotency key before; no second job is started."
    return Submission(engine.store.get(job_id), notes=(note,), repeated=True)


def keep(engine: Engine, planned: Planned, request: Request, key: SubmitKey | None = None) -> Job:
    """Store the job and its first attempt, before the backend hears of them. Raises KeyInUse."""
    plan, spec = planned.plan, planned.spec
    job_id = plan.attempt.job_id
    backend = engine.backend(plan.attempt.platform, plan.attempt.endpoint)
    if planned.secrets:
        engine.store.keyring.save(job_id, planned.secrets)
    job = Job(
        id=job_id,
        name=spec.name or job_id.rpartition("-")[0],
        platform=plan.attempt.platform,
        message=words.sentence(Reason.SUBMITTING),
        reason_code=Reason.SUBMITTING,
        image=spec.image,
        gpu_count=spec.gpu_count,
        labels=dict(spec.labels),
        parent=request.parent,
        results_dir=plan.results_dir,
        results_at=plan.results_at,
        price_per_hour=plan.price.per_hour if plan.price else 0.0,
        rented=backend.capabilities.costs_while_kept,
        backend_details=plan.backend_details,
        spec={**spec.to_json(), "packed": planned.job.command},
        options=plain_value(
            {name: getattr(planned.options, name) for name in settings_of(planned.options)}
        ),
    )
    engine.places.remember(backend)
    engine.take_lease(lease_of(job_id), SUBMIT_LEASE_SECONDS)
    engine.last_written_job = job_id
    try:
        return engine.store.add(job, AttemptRow(plan.attempt, plan.to_json()), key)
    except KeyInUse:
        engine.store.keyring.forget(job_id)
        engine.give_back(lease_of(job_id))
        raise


def hand_over(engine: Engine, job: Job, plan: Plan[Any], secrets: Mapping[str, str]) -> Job:
    """Call the backend and confirm. If it refuses, or was never reached, the row of a first attempt
    is removed.
    """
    backend = engine.backend(plan.attempt.platform, plan.attempt.endpoint)
    try:
        with engine.kept_lease(lease_of(job.id), SUBMIT_LEASE_SECONDS):
            ref = _submit(engine, backend, plan, secrets)
    except Refused:
        if plan.attempt.number == 1:
            engine.store.remove(job.id)
        raise
    except Unreachable as doubt:
        if doubt.nothing_sent and plan.attempt.number == 1:
            engine.store.remove(job.id)
            raise
        return note(engine, job, words.why(Reason.START_UNKNOWN, what=doubt.what))
    else:
        return end_if_asked(engine, confirm(engine, job.id, ref), ref)
    finally:
        engine.give_back(lease_of(job.id))


def _submit(
    engine: Engine, backend: AnyBackend, plan: Plan[Any], secrets: Mapping[str, str]
) -> Ref:
    with Unforeseen(engine, plan.attempt):
        return backend.submit(plan, secrets)


@dataclass(frozen=True)
class Unforeseen:
    """Stores that an attempt's submit met an unexpected error, which is any but a TaoError. The
    error goes on to the caller.
    """

    engine: Engine
    attempt: Attempt

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, TaoError):
            with suppress(StoreError, JobNotFound):  # the error itself says more
                self.write_down(error)

    def write_down(self, error: Exception) -> None:
        job = self.engine.store.get(self.attempt.job_id)
        what = self.engine.redactor(job)(f"{type(error).__name__}: {error}")
        self.engine.store.record(
            [NewEvent(job.id, BROKEN, raw=what, data={"attempt": self.attempt.number})]
        )
        note(self.engine, job, words.why(Reason.SUBMIT_BROKEN, what=what))


def _refuse_broken(engine: Engine, attempt: Attempt, found: Ref | None) -> None:
    """Raise Refused for an attempt whose submit met an unexpected error."""
    broken = engine.store.last_event(attempt.job_id, BROKEN)
    if broken is None or broken.data["attempt"] != attempt.number:
        return
    if found is not None:
        engine.store.confirm(found)  # so that its remains can be removed
    raise Refused(
        f"Its submit met an error that nobody foresaw: {broken.raw}",
        "The fault is this program's, or of a library that it uses; the job was not started.",
        "Report it, and submit the job again once that is mended.",
    )


def end_if_asked(engine: Engine, job: Job, ref: Ref) -> Job:
    """Cancel the job if that was requested before it was there. If the backend fails to do so, the
    job runs on, and its message says so.
    """
    if not job.cancel_asked:
        return job
    try:
        cancel_one(engine.backend_of(job), ref, GRACE)
        return job
    except TaoError as error:
        return note(engine, job, words.why(Reason.CANCEL_FAILED, what=error.what, job=job.id))


def confirm(engine: Engine, job_id: str, ref: Ref) -> Job:
    """Store the ref of the newest attempt, and the backend's details of it."""
    engine.store.confirm(ref)
    engine.submit_due_at[job_id] = time.monotonic() + ref.retry_after
    return change(engine, job_id, lambda now: with_details(now, ref).with_reason(how_far(ref)))


def how_far(ref: Ref) -> Why:
    """How far the submit of an attempt is, by its ref."""
    if ref.ready:
        return words.why(Reason.SUBMITTED)
    return words.why(Reason.STARTING, step=ref.step)


def with_details(job: Job, ref: Ref) -> Job:
    return replace(job, backend_details={**job.backend_details, **ref.details})


def settle(engine: Engine, job: Job, *, ends: bool = True) -> bool:
    """Finish a submit that was never confirmed. Adopt the attempt if the backend has it, else start
    it, or end the job if it is to be canceled. True once it is confirmed; False also while the
    backend wants to be left alone with it.

    `ends`: a confirmed job that is to be canceled is canceled here. False if the caller does that.

    Raises Unreachable while the backend cannot be asked, Refused. The lease keeps this away from a
    submit under way.
    """
    ref = engine.ref_of(job)
    if ref is not None and ref.ready:
        return True
    if not job.cancel_asked and time.monotonic() < engine.submit_due_at.get(job.id, 0):
        return False
    if not engine.take_lease(lease_of(job.id), SUBMIT_LEASE_SECONDS):
        return False
    try:
        with engine.kept_lease(lease_of(job.id), SUBMIT_LEASE_SECONDS):
            found = _find_or_start(engine, engine.store.get(job.id))
        if found is not None:
            now = confirm(engine, job.id, found)
            if ends:
                end_if_asked(engine, now, found)
        return found is not None and found.ready
    finally:
        engine.give_back(lease_of(job.id))


def _find_or_start(engine: Engine, job: Job) -> Ref | None:
    """Find the attempt at the backend, or start it. `job` was read under the lease: before, someone
    else may have ended it or requested its cancel.
    """
    if job.status.terminal:
        return None
    row = engine.store.attempt(job.id)
    backend = engine.backend(row.attempt.platform, row.attempt.endpoint)
    plan = read_plan(backend, row)
    ref = backend.find(row.attempt, plan)
    if ref is None and job.cancel_asked:
        _never_started(engine, job)
    elif not job.cancel_asked and (ref is None or not ref.ready):
        _refuse_broken(engine, row.attempt, ref)
        return _submit(engine, backend, plan, engine.store.keyring.load(job.id))
    return ref


def _never_started(engine: Engine, job: Job) -> None:
    """End a canceled job that the backend does not have. We hold the lease, so nobody starts it
    behind our back.
    """
    ended = NewEvent(job.id, "status", Status.CANCELED, "never started")
    while not job.status.terminal:
        gone = replace(job, status=Status.CANCELED, ended=utc_now(), next_attempt_at=None)
        gone = gone.with_reason(words.why(Reason.NEVER_STARTED))
        job = engine.store.update(gone, [ended]) or engine.store.get(job.id)
    engine.store.keyring.forget(job.id)


def lease_of(job_id: str) -> str:
    return f"job:{job_id}"


def change(engine: Engine, job_id: str, how: Callable[[Job], Job]) -> Job:
    """Apply `how` to the job as it is now, and again if someone else changed it in between. An
    ended job keeps its status and message.
    """
    while True:
        now = engine.store.get(job_id)
        wanted = how(now)
        if now.status.terminal:
            wanted = replace(wanted, status=now.status, cancel_asked=now.cancel_asked)
            wanted = wanted.with_reason(Why(now.reason_code, now.message))
        changed = engine.store.update(wanted)
        if changed is not None:
            return changed


def note(engine: Engine, job: Job, why: Why) -> Job:
    return change(engine, job.id, lambda now: now.with_reason(why))
