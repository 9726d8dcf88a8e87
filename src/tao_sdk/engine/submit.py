"""Submit: check, then the attempt's row, then the backend, then confirm; on doubt find and adopt.

A refused job leaves no row. A job whose start is in doubt keeps its row, Pending, and is settled by whoever looks next:
our id is minted and stored before the backend is called, so no second copy is ever started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tao_sdk.engine.engine import Engine
from tao_sdk.engine.prepare import Planned, Request, prepare
from tao_sdk.model.errors import Refused, Unreachable
from tao_sdk.model.fields import plain, settings_of
from tao_sdk.model.finding import Finding, Severity, refuse_errors
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.plan import Plan

SUBMIT_LEASE_SECONDS = 120.0


@dataclass(frozen=True)
class Submission:
    """A job that was handed over, with what is worth knowing about it."""

    job: Job
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def submit(engine: Engine, request: Request) -> Submission:
    """Hand the job over and return it. Raises Refused (nothing was started, no row is left), SpecError, Unreachable.

    A lost reply does not raise: the job is returned Pending, and the next look finds out.
    """
    planned = prepare(engine, request)
    refuse_errors(planned.findings)
    job = keep(engine, planned, request)
    job = hand_over(engine, job, planned.plan, planned.secrets)
    warnings = tuple(finding for finding in planned.findings if finding.severity is Severity.WARNING)
    return Submission(job, warnings, planned.plan.notes)


def keep(engine: Engine, planned: Planned, request: Request) -> Job:
    """Commit the job and its first attempt, before the backend hears of them."""
    plan, spec = planned.plan, planned.spec
    job_id = plan.attempt.job_id
    if planned.secrets:
        engine.keyring.save(job_id, planned.secrets)
    job = Job(
        id=job_id,
        name=spec.name or job_id.rpartition("-")[0],
        platform=plan.attempt.platform,
        message="submitting",
        image=spec.image,
        gpu_count=spec.gpu_count,
        labels=dict(spec.labels),
        parent=request.parent,
        results_dir=plan.results_dir,
        backend_details=plan.backend_details,
        spec={**spec.to_json(), "packed": planned.command},
        options=plain({name: getattr(planned.options, name) for name in settings_of(planned.options)}),
    )
    engine.take_lease(lease_of(job_id), SUBMIT_LEASE_SECONDS)
    return engine.store.add(job, AttemptRow(plan.attempt, plan.to_json()))


def hand_over(engine: Engine, job: Job, plan: Plan, secrets: Mapping[str, str]) -> Job:
    """Call the backend and confirm. A refusal takes the row of a first attempt back."""
    backend = engine.backend(plan.attempt.platform, plan.attempt.endpoint)
    try:
        ref = backend.submit(plan, secrets)
    except Refused:
        if plan.attempt.number == 1:
            engine.store.discard(job.id)
            engine.keyring.forget(job.id)
        raise
    except Unreachable as doubt:
        return note(engine, job, f"not known whether it started ({doubt.what}); looking will tell")
    finally:
        engine.give_back(lease_of(job.id))
    engine.store.confirm(ref)
    details = {**job.backend_details, **ref.details}
    return change(engine, job.id, lambda now: replace(now, backend_details=details, message=ref.step or "submitted"))


def settle(engine: Engine, job: Job) -> bool:
    """Finish a submit that was never confirmed: adopt what runs, else start it. True once it is confirmed.

    Raises Unreachable while the backend cannot be asked. The lease keeps this away from a submit under way.
    """
    row = engine.store.attempt(job.id)
    if row.ref is not None and row.ref.ready:
        return True
    if not engine.take_lease(lease_of(job.id), SUBMIT_LEASE_SECONDS):
        return False
    try:
        backend = engine.backend(row.attempt.platform, row.attempt.endpoint)
        ref = backend.find(row.attempt)
        if ref is None or not ref.ready:
            ref = backend.submit(Plan.from_json(row.plan, row.attempt), engine.keyring.load(job.id))
        engine.store.confirm(ref)
        return ref.ready
    finally:
        engine.give_back(lease_of(job.id))


def lease_of(job_id: str) -> str:
    return f"job:{job_id}"


def change(engine: Engine, job_id: str, how: Callable[[Job], Job]) -> Job:
    """Apply `how` to the job as it is now, again when someone else changed it in between."""
    while True:
        now = engine.store.get(job_id)
        changed = engine.store.update(how(now))
        if changed is not None:
            return changed
        if now.status.terminal:
            return engine.store.get(job_id)


def note(engine: Engine, job: Job, message: str) -> Job:
    return change(engine, job.id, lambda now: replace(now, message=message))
