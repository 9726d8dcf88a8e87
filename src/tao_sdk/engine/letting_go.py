"""Letting go: give back the places of ended jobs that cost money while they are kept.

Whoever looks at a job does it, as soon as it has ended, and again at later looks until its place
is seen gone. A list of jobs and a watcher do it for all jobs. The log is kept first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from tao_sdk.engine.drain import drain, log_turn
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.side_by_side import side_by_side
from tao_sdk.engine.submit import change
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import JobNotFound, StoreError, TaoError
from tao_sdk.model.job import AttemptRow, Job

log = logging.getLogger("tao_sdk.release")

LEASE_SECONDS = 60.0
LOG_PATIENCE = timedelta(minutes=5)  # after a job's end, for a log that cannot be fetched
TELL_AT_TRY = 5  # to release a place
CUT_OFF = b"\n[tao] The rest of this log could not be fetched before its place was given back.\n"


def let_go_ended(engine: Engine) -> list[str]:
    """Give back the rented places of all ended jobs, as `let_go_jobs` does."""
    return let_go_jobs(engine, engine.store.rented_after_end())


def let_go_jobs(engine: Engine, job_ids: Sequence[str]) -> list[str]:
    """Give back the rented places of these ended jobs, several at a time. Return the ids of the
    jobs whose places are gone now. What fails now is due again after the backend's polite interval.
    """
    now = time.monotonic()
    due = [job_id for job_id in job_ids if now >= engine.release_due_at.get(job_id, 0)]
    answers = side_by_side(lambda job_id: let_go(engine, job_id), due)
    return [job_id for job_id, is_gone in zip(due, answers, strict=True) if is_gone is True]


def let_go(engine: Engine, job_id: str) -> bool:
    """Give back the place of one ended job, unless another process does it now. True if nothing is
    left to give back.
    """
    if not engine.take_lease(lease_of(job_id), LEASE_SECONDS):
        return False
    try:
        with engine.kept_lease(lease_of(job_id), LEASE_SECONDS):
            job = engine.store.get(job_id)
            if job.is_still_rented:  # nobody was faster, and it was not started again
                release_place(engine, job)
                change(engine, job_id, as_released)
        return True
    except JobNotFound:
        return False
    except TaoError as error:
        engine.release_due_at[job_id] = time.monotonic() + pause_seconds(engine, job_id)
        tell_trouble(engine, job_id, error)
        return False
    finally:
        engine.give_back(lease_of(job_id))


def tell_trouble(engine: Engine, job_id: str, error: TaoError) -> None:
    """Log once why a place is still rented. The first tries only wait for a place that goes."""
    tries = engine.release_tries.get(job_id, 0) + 1
    engine.release_tries[job_id] = tries
    if tries == TELL_AT_TRY:
        log.warning("The place of %s is still rented: %s", job_id, error)


def release_place(engine: Engine, job: Job) -> None:
    """Keep the log of each attempt, and release the attempt. Raises TaoError unless all are seen
    gone.
    """
    for row in engine.store.attempts(job.id):
        if row.ref is not None:
            keep_log(engine, job, row)
            engine.backend_of(job).release(row.ref)


def keep_log(engine: Engine, job: Job, row: AttemptRow) -> None:
    """Copy an attempt's log. Raises TaoError if it cannot be fetched now. Once LOG_PATIENCE has
    passed since the job's end, the copy says instead that its rest is missing, and is over.
    """
    if is_cut_off(engine, row):
        return
    try:
        drain(engine, job, row)
    except TaoError:
        if job.ended is None or utc_now() - job.ended < LOG_PATIENCE:
            raise
        with suppress(StoreError):  # a place that costs money is not kept for a full disk
            mark_cut_off(engine, row)


def is_cut_off(engine: Engine, row: AttemptRow) -> bool:
    """True if the copy of an attempt's log ends with CUT_OFF."""
    copies = engine.store.log_copies
    start = copies.size(row.attempt) - len(CUT_OFF)
    return start >= 0 and copies.read(row.attempt, start, len(CUT_OFF)) == CUT_OFF


def mark_cut_off(engine: Engine, row: AttemptRow) -> None:
    """End the copy of an attempt's log with CUT_OFF."""
    with log_turn(engine, row.attempt.job_id):
        engine.store.log_copies.append(row.attempt, CUT_OFF)


def pause_seconds(engine: Engine, job_id: str) -> float:
    """The polite seconds until another try."""
    with suppress(TaoError):
        return engine.backend_of(engine.store.get(job_id)).capabilities.poll_seconds
    return LEASE_SECONDS


def as_released(job: Job) -> Job:
    """The job without its place. A job that was started again meanwhile has another one."""
    return replace(job, released=True, rented=False) if job.status.terminal else job


def lease_of(job_id: str) -> str:
    return f"release:{job_id}"
