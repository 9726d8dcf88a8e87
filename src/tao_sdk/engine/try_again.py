"""Try again: at a person's request, run an ended job as a further attempt, or as a new job like it.

Not here: the further attempts that a watcher starts by itself (resubmit.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from tao_sdk.engine.drain import drain
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.look import refused
from tao_sdk.engine.prepare import Request, with_environment
from tao_sdk.engine.resubmit import further_attempt, next_plan
from tao_sdk.engine.submit import SUBMIT_LEASE_SECONDS, hand_over, lease_of
from tao_sdk.model.errors import CredentialError, Refused, UsageError
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.plan import Plan
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.secrets import Secret, SecretRef
from tao_sdk.model.spec import JobSpec, stored_spec
from tao_sdk.model.status import Status
from tao_sdk.payload.declared import read_data
from tao_sdk.store import NewEvent


def retry(engine: Engine, job_id: str) -> Job:
    """Start the next attempt of an ended job, and return the job. It does not count towards
    `retries`.

    Raises UsageError for a job that is live or Complete, CredentialError, SpecError, Unreachable:
    then nothing has changed. Raises Refused in the backend's words: that ends the attempt.
    """
    if not engine.take_lease(lease_of(job_id), SUBMIT_LEASE_SECONDS):
        raise busy(job_id)
    try:
        with engine.kept_lease(lease_of(job_id), SUBMIT_LEASE_SECONDS):  # the log may be long
            job = retryable(engine.store.get(job_id))
            last = engine.store.attempt(job_id)
            drain(engine, job, last)
            plan = next_plan(engine, job, last)
        secrets = secrets_now(
            engine, stored_spec(job.spec), plan.secrets, engine.store.keyring.load(job_id)
        )
        return _hand_over(engine, _reopen(engine, job, plan, secrets), plan, secrets)
    finally:
        engine.give_back(lease_of(job_id))


def _hand_over(engine: Engine, job: Job, plan: Plan[Any], secrets: Mapping[str, str]) -> Job:
    try:
        return hand_over(engine, job, plan, secrets)
    except Refused as error:
        refused(engine, engine.store.get(job.id), error)
        raise


def retryable(job: Job) -> Job:
    """Return the job. Raises UsageError if it is live or Complete."""
    if not job.status.terminal:
        raise UsageError(
            f"{job.id} is {job.status}: {job.message}"
            if job.message
            else f"{job.id} is {job.status}.",
            "Only a job that has ended can be tried again.",
            "End it first:",
            f"tao cancel {job.id}",
        )
    if job.status is Status.COMPLETE:
        why = "A further attempt would begin at its end."
        raise UsageError(
            f"{job.id} is Complete.",
            why,
            "To run the same as a new job:",
            f"tao retry {job.id} --anew",
        )
    return job


def busy(job_id: str) -> UsageError:
    return UsageError(
        f"Another process is starting {job_id}.",
        "",
        "See what becomes of it:",
        f"tao status {job_id}",
    )


def _reopen(engine: Engine, job: Job, plan: Plan[Any], secrets: Mapping[str, str]) -> Job:
    """Store the next attempt before the backend hears of it. If a crash follows, a look starts that
    attempt.
    """
    if secrets:
        engine.store.keyring.save(job.id, secrets)
    number = plan.attempt.number
    backend = engine.backend_of(job)
    reopened = engine.store.reopen(
        replace(
            further_attempt(job, number),
            ended=None,
            cancel_asked=False,
            released=False,
            rented=backend.capabilities.costs_while_kept,
            asked_retries=job.asked_retries + 1,
        ),
        AttemptRow(plan.attempt, plan.to_json()),
        [NewEvent(job.id, "retry", Status.PENDING, "asked for", {"attempt": number})],
    )
    if reopened is None:
        raise busy(job.id)
    return reopened


def request_anew(engine: Engine, job: Job) -> Request:
    """Return a request for a new job with the same spec, options and packed command, and the
    current environment.
    """
    endpoint = engine.store.attempt(
        job.id
    ).attempt.endpoint  # raises for a job that only another program knows
    spec = stored_spec(job.spec)
    names = [name for name, value in spec.env_vars.items() if isinstance(value, SecretRef)]
    values = secrets_now(engine, spec, names, engine.store.keyring.load(job.id))
    env_vars = {**spec.env_vars, **{name: Secret(value) for name, value in values.items()}}
    packed = str(job.spec["packed"])
    # names alone: the contents are in the packed command
    files = dict.fromkeys(job.spec.get("files", ()), b"")
    again = replace(spec, env_vars=env_vars, files=files)
    return Request(again, job.platform, dict(job.options), job.parent, packed, endpoint)


def secrets_now(
    engine: Engine, spec: JobSpec, names: Collection[str], kept: Mapping[str, str]
) -> dict[str, str]:
    """Return the values of these secrets: the caller's current ones, else the stored ones. The
    secrets of an ended job are not stored.

    Raises CredentialError naming a secret that is neither here nor stored.
    """
    if not names:
        return {}
    open_ones = {
        name: value for name, value in spec.env_vars.items() if not isinstance(value, SecretRef)
    }
    own = replace(spec, env_vars=open_ones, secrets=())
    _, found = with_environment(PreparedJob(own, "", read_data(own)), engine.settings)
    values: dict[str, str] = {}
    for name in names:
        value = found.get(name) or engine.settings.get(name) or kept.get(name)
        if value is None:
            raise CredentialError(
                f"The job was given {name}, which is secret and is not set here.",
                "The secrets of a job that has ended are not kept.",
                f"Export {name}, and try again.",
            )
        values[name] = value
    return values
