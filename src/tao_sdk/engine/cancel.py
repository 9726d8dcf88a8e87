"""Cancel: end a job, wherever it is in its life, and keep its log."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

from tao_sdk.engine.drain import drain
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.look import judge, look
from tao_sdk.engine.submit import change, settle
from tao_sdk.model import words
from tao_sdk.model.job import Job
from tao_sdk.model.plan import Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.store import NewEvent

SETTLE_SECONDS = 5.0  # for a submit that goes on, and for what is gone to be known as gone


def cancel(engine: Engine, job_id: str, grace: timedelta) -> bool:
    """True when the job is over, by this or before it; False when that could not be seen in time.

    Raises JobNotFound, Unreachable, and Refused in the backend's words. Idempotent.
    """
    before = engine.store.get(job_id)
    if before.status.terminal:
        return True
    job = ask(engine, before)
    ref = _place(engine, job)
    if ref is None:
        return engine.store.get(job_id).status.terminal
    backend = engine.backend_of(job)
    if not backend.capabilities.keeps_logs:
        drain(engine, job, engine.store.attempt(job.id))
    seen = backend.cancel(ref, grace)
    own_end = not before.waits_for_next_attempt
    after = judge(engine, backend, engine.store.get(job_id), ref, seen, own_end=own_end).job
    return after.status.terminal or (seen.phase.over and seen_over(engine, job_id))


def ask(engine: Engine, job: Job) -> Job:
    """Write down that the job is to end, before anything is ended: a crash now still tells why."""
    engine.store.record([NewEvent(job.id, "cancel")])
    return change(engine, job.id, _to_be_canceled)


def _to_be_canceled(job: Job) -> Job:
    asked = replace(job, cancel_asked=True, next_attempt_at=None)
    return asked.because(words.why(Reason.CANCELING))


def _place(engine: Engine, job: Job) -> Ref | None:
    """Where the newest attempt lives. None when it never started, which is its end, or its submit
    still goes on.
    """
    wait_until = time.monotonic() + SETTLE_SECONDS
    while (ref := engine.ref_of(job)) is None:
        settle(engine, job, ends=False)
        if engine.store.get(job.id).status.terminal or time.monotonic() > wait_until:
            return engine.ref_of(job)
        time.sleep(0.05)
    return ref


def seen_over(engine: Engine, job_id: str) -> bool:
    """True once a look shows the end: of what is gone, others must say what became of it, and one
    that was changed meanwhile is judged anew.
    """
    wait_until = time.monotonic() + SETTLE_SECONDS
    while True:
        if look(engine, [engine.store.get(job_id)])[0].job.status.terminal:
            return True
        if time.monotonic() > wait_until:
            return False
        time.sleep(0.1)
