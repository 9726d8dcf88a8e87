"""Grace: the time that a cancel gives a command to end, and whether that was too short."""

from __future__ import annotations

from datetime import timedelta

from tao_sdk.engine.engine import Engine
from tao_sdk.model import words
from tao_sdk.model.job import Event, Job
from tao_sdk.model.observation import Observation
from tao_sdk.model.reasons import Reason
from tao_sdk.model.status import Standing, Status
from tao_sdk.model.units import format_duration

KILLED = 137  # the exit code of a program that SIGKILL has ended
EARLY = 0.5  # of the grace: an earlier kill has another cause
LONGER, LEAST_ADVISED = 3, timedelta(seconds=30)  # LONGER: times the grace that was too short
ASKED = "cancel"  # the event of a cancel request, which holds the grace


def with_grace_over(engine: Engine, job: Job, seen: Observation, standing: Standing) -> Standing:
    """The standing of a canceled job, with the grace as its reason if the job was killed when its
    grace was over.
    """
    if standing.status is not Status.CANCELED or standing.exit_code != KILLED:
        return standing
    grace = grace_used_up(engine, job, seen)
    if grace is None:
        return standing
    return standing.with_reason(words.why(Reason.GRACE_OVER, grace=format_duration(grace)))


def grace_used_up(engine: Engine, job: Job, seen: Observation) -> timedelta | None:
    """The grace of the newest cancel. None if it was 0 or is not known, or if the job was gone too
    early for it to be over.
    """
    asked = engine.store.last_event(job.id, ASKED)
    grace = grace_of(asked)
    if asked is None or not grace:
        return None
    lived = (seen.ended_at or seen.seen_at) - asked.time
    return grace if lived >= grace * EARLY else None


def longer_grace(engine: Engine, job: Job) -> str:
    """The longer grace to advise for a job that was killed when its grace was over: `30s` after 10
    seconds. "" for any other job.
    """
    if job.reason_code is not Reason.GRACE_OVER:
        return ""
    grace = grace_of(engine.store.last_event(job.id, ASKED))
    return format_duration(max(grace * LONGER, LEAST_ADVISED)) if grace else ""


def grace_of(asked: Event | None) -> timedelta | None:
    """The grace that a cancel's event holds; None if it holds none."""
    seconds = asked.data.get("grace") if asked else None
    return None if seconds is None else timedelta(seconds=seconds)
