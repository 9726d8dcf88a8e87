"""Cleaning: forget ended jobs, and remove what they left at their backends. Logs are kept first;
results stay.
"""

from __future__ import annotations

from datetime import timedelta

from tao_sdk.backends.contract import ForcesAway
from tao_sdk.engine import submit
from tao_sdk.engine.drain import drain
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.letting_go import as_released
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import JobNotFound, TaoError, UsageError
from tao_sdk.model.job import Job


def refuse_live(job: Job) -> None:
    """Raise UsageError for a job that has not ended."""
    if job.status.terminal:
        return
    if job.imported_from:
        why = "The published SDK has started it, and it alone can end it."
        raise UsageError(
            f"{job.id} is {job.status}.",
            why,
            "To forget it nevertheless:",
            f"tao rm --force {job.id}",
        )
    raise UsageError(f"{job.id} is {job.status}.", "", "End it first:", f"tao cancel {job.id}")


def release(engine: Engine, job: Job) -> None:
    """Remove what the backend still has of an ended job. Raises Unreachable."""
    for row in engine.store.attempts(job.id):
        if row.ref is not None:
            drain(engine, job, row)
            engine.backend_of(job).release(row.ref)


def force_away(engine: Engine, job: Job, is_gone: bool) -> bool:
    """Remove the rest of a job at once, if its backend can. True once nothing of the job is there.
    `is_gone` is the backend's earlier answer. Raises Unreachable.
    """
    backend = engine.backend_of(job)
    if not isinstance(backend, ForcesAway):
        return is_gone
    refs = [row.ref for row in engine.store.attempts(job.id) if row.ref is not None]
    forced = [backend.force_away(ref) for ref in refs]
    return all(forced)


def clean_old_jobs(engine: Engine, older_than: timedelta, dry_run: bool) -> list[str]:
    """Clean the jobs, and remove what crashes left in the store. Return the ids of the cleaned
    jobs; for a dry run, of the jobs that would be cleaned.

    A job that cannot be cleaned now keeps no other from it: its error is raised once all are done.
    """
    job_ids = [
        job.id for job in engine.store.list() if is_old(job, older_than) and not job.released
    ]
    if dry_run:
        return job_ids
    errors = [error for job_id in job_ids if (error := clean_job(engine, job_id)) is not None]
    engine.store.sweep()
    if errors:
        raise errors[0]
    return job_ids


def is_old(job: Job, older_than: timedelta) -> bool:
    return bool(job.status.terminal and job.ended and utc_now() - job.ended > older_than)


def clean_job(engine: Engine, job_id: str) -> TaoError | None:
    """Release the job's files. Return the error if nothing could be removed; None also for a job
    that was forgotten meanwhile.
    """
    try:
        release(engine, engine.store.get(job_id))
        submit.change(engine, job_id, as_released)
    except JobNotFound:
        return None
    except TaoError as error:
        return error
    return None
