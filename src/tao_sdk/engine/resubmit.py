"""Resubmit: start the next attempt of a job whose last one failed for a reason that a retry can
mend.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tao_sdk.backends.contract import read_plan
from tao_sdk.engine.drain import drain
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.look import refused, refused_attempt
from tao_sdk.engine.prepare import read_options
from tao_sdk.engine.submit import SUBMIT_LEASE_SECONDS, hand_over, lease_of
from tao_sdk.model import words
from tao_sdk.model.errors import Refused, SpecError
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.plan import Plan
from tao_sdk.model.reasons import Reason
from tao_sdk.model.spec import stored_spec
from tao_sdk.model.status import Status
from tao_sdk.payload.prepared_job import pack_spec
from tao_sdk.store import NewEvent


def resubmit(engine: Engine, job: Job) -> Job:
    """Start the job's next attempt, and return the job. If another process acted first, return the
    job as it is. Only the watcher calls this.

    Raises Unreachable, with nothing changed: the next look finds the job due again. After a refused
    attempt, another follows if the job may have one; else the refusal is the job's end.
    """
    if not engine.take_lease(lease_of(job.id), SUBMIT_LEASE_SECONDS):
        return engine.store.get(job.id)
    try:
        last = engine.store.attempt(job.id)
        with engine.kept_lease(lease_of(job.id), SUBMIT_LEASE_SECONDS):  # the log may be long
            drain(engine, job, last)
            plan = next_plan(engine, job, last)
        kept = _keep(engine, job, plan)
        return (
            hand_over(engine, kept, plan, engine.store.keyring.load(job.id))
            if kept
            else engine.store.get(job.id)
        )
    except (Refused, SpecError) as error:
        now = engine.store.get(job.id)
        return (
            refused_attempt(engine, now, error)
            if now.attempt > job.attempt
            else refused(engine, now, error)
        )
    finally:
        engine.give_back(lease_of(job.id))


def _keep(engine: Engine, job: Job, plan: Plan[Any]) -> Job | None:
    """Store the next attempt before the backend hears of it. None if the job was changed
    meanwhile.
    """
    number = plan.attempt.number
    pending = further_attempt(job, number)
    retried = NewEvent(job.id, "retry", Status.PENDING, job.message, {"attempt": number})
    return engine.store.add_attempt(pending, AttemptRow(plan.attempt, plan.to_json()), [retried])


def further_attempt(job: Job, number: int) -> Job:
    """The job as it begins its next attempt."""
    begins = replace(
        job,
        attempt=number,
        status=Status.PENDING,
        exit_code=None,
        absent_looks=0,
        next_attempt_at=None,
        attempt_started="",
    )
    return begins.with_reason(words.why(Reason.ATTEMPT_STARTED, attempt=number))


def next_plan(engine: Engine, job: Job, last: AttemptRow) -> Plan[Any]:
    """Plan the next attempt of the same job."""
    backend = engine.backend_of(job)
    prepared = pack_spec(stored_spec(job.spec), str(job.spec["packed"]))
    options = read_options(backend, job.options)
    attempt = replace(last.attempt, number=last.attempt.number + 1)
    return backend.plan_again(read_plan(backend, last), prepared, options, attempt)
