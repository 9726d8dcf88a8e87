"""Cancel: end a job, wherever it is in its life, and keep its log."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

from tao_sdk.engine.drain import drain
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.look import look
from tao_sdk.engine.submit import change, lease_of
from tao_sdk.model.clock import utc_now
from tao_sdk.model.job import Job
from tao_sdk.model.plan import Ref
from tao_sdk.model.status import Status
from tao_sdk.store import NewEvent

SETTLE_SECONDS = 5.0  # for a backend to say what it has just done
LEASE_SECONDS = 60.0


def cancel(engine: Engine, job_id: str, grace: timedelta) -> bool:
    """True when the job is over, by this or before it; False when that could not be seen in time.

    Raises JobNotFound, Unreachable, and Refused in the backend's words. Idempotent.
    """
    job = look(engine, [engine.store.get(job_id)])[0].job
    if job.status.terminal:
        return True
    job = ask(engine, job)
    ref = _place(engine, job)
    if ref is None:
        return _never_started(engine, job)
    backend = engine.backend_of(job)
    if not backend.capabilities.keeps_logs:
        drain(engine, job, engine.store.attempt(job.id))
    over = backend.cancel(ref, grace)
    if over and not ref.ready:
        return _never_started(engine, job)
    return seen_over(engine, job_id) if over else False


def ask(engine: Engine, job: Job) -> Job:
    """Write down that the job is to end, before anything is ended: a crash now still tells why."""
    engine.store.record([NewEvent(job.id, "cancel")])
    return change(engine, job.id, lambda now: replace(now, cancel_asked=True, message="canceling"))


def _place(engine: Engine, job: Job) -> Ref | None:
    """Where the newest attempt lives, asking the backend when its submit was never confirmed."""
    row = engine.store.attempt(job.id)
    if row.ref is not None and row.ref.ready:
        return row.ref
    wait_until = time.monotonic() + SETTLE_SECONDS
    while not engine.take_lease(lease_of(job.id), LEASE_SECONDS) and time.monotonic() < wait_until:
        time.sleep(0.05)
    row = engine.store.attempt(job.id)
    return row.ref or engine.backend_of(job).find(row.attempt)


def _never_started(engine: Engine, job: Job) -> bool:
    """The backend has nothing of it, and we hold the lease, so nobody starts it behind our back."""
    ended = NewEvent(job.id, "status", Status.CANCELED, "never started")
    while not job.status.terminal:
        gone = replace(job, status=Status.CANCELED, message="canceled before it started", ended=utc_now())
        job = engine.store.update(gone, [ended]) or engine.store.get(job.id)
    engine.keyring.forget(job.id)
    engine.give_back(lease_of(job.id))
    return True


def seen_over(engine: Engine, job_id: str) -> bool:
    """True once a look shows the end. The backend has said that it is over; its listing may lag a little."""
    wait_until = time.monotonic() + SETTLE_SECONDS
    while True:
        if look(engine, [engine.store.get(job_id)])[0].job.status.terminal:
            return True
        if time.monotonic() > wait_until:
            return False
        time.sleep(0.1)
