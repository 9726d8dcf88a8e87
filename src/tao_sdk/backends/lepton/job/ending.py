"""Ending: an attempt is told to stop, watched until it has, and removed with its secrets."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta

from tao_sdk.backends.lepton import parse
from tao_sdk.backends.lepton.job.starting import delete_secrets
from tao_sdk.backends.lepton.look import ALL, END_TIME, Look
from tao_sdk.backends.refusals import still_runs
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Ref
from tao_sdk.transports.rest import RestRefusal

STOP_SECONDS = (
    20.0  # for a stop to be carried out; the workspace takes no time for it from a caller
)
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0  # seconds between two looks at a job that ends
GONE = Observation(Phase.ABSENT, "")


def end_attempt(look: Look, ref: Ref, grace: timedelta) -> Observation:
    """Stop every job of the attempt, and return what is seen at the end: of one that still runs, if
    there is one. Raises RestRefusal, Unreachable.

    The workspace stops a job in a time of its own, whatever the grace.
    """
    seen = end_jobs(look, ref, grace)
    return next((one for one in seen.values() if not one.phase.over), seen[ref.native_id])


def end_jobs(look: Look, ref: Ref, grace: timedelta) -> Mapping[str, Observation]:
    """Stop every job of the attempt: its id -> what is seen of it at the end."""
    return {job_id: end_job(look, ref, job_id, grace) for job_id in look.job_ids(ref)}


def end_job(look: Look, ref: Ref, job_id: str, grace: timedelta) -> Observation:
    """Stop one job of the attempt, and return what is seen of it at the end."""
    most = max(grace.total_seconds(), STOP_SECONDS) + END_TIME.total_seconds()
    deadline, pause, is_told = time.monotonic() + most, FIRST_PAUSE, False
    while True:
        job = look.job(job_id)
        if job is None:
            return GONE
        seen = look.observation(ref, job)
        if seen.phase.over or time.monotonic() > deadline:
            return seen
        if not is_told and not parse.phase_of(job).ended:
            look.rest.ask("PATCH", f"/jobs/{job_id}", {"spec": {"stopped": True}})
            is_told = True
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def release_attempt(look: Look, ref: Ref) -> None:
    """Delete every job of the attempt, its log and its secrets. Raises RestRefusal, Unreachable."""
    seen = end_jobs(look, ref, timedelta(seconds=10))
    for job_id, one in seen.items():
        if not one.phase.over:
            raise still_runs(job_id)
    for job_id, one in seen.items():
        if one.phase is not Phase.ABSENT:
            delete_job(look, job_id)
    delete_secrets(look.rest, ref.attempt, ref.details.get("secrets"))


def delete_job(look: Look, job_id: str) -> None:
    try:
        look.rest.ask("DELETE", f"/jobs/{job_id}", params={"job_query_mode": ALL})
    except RestRefusal as refused:
        if refused.status != 404:
            raise
