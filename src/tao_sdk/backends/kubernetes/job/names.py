"""The names of an attempt's objects, and the labels that select them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tao_sdk.model.plan import Attempt

CONTAINER = "tao"
JOB_ID, ATTEMPT, STORE = "tao-sdk-job-id", "tao-sdk-attempt", "tao-sdk-store"
RESULTS, TIME_LIMIT = "tao-sdk/results", "tao-sdk/time-limit"  # annotations of the Job
PULL_TIMEOUT = "tao-sdk/pull-timeout"  # annotation of the Job
PULL_FAILED = "tao-sdk/pull-failed"  # annotation of a Job whose pull was given up: why
GANG_TIMEOUT = "tao-sdk/gang-timeout"  # annotation of a Job whose ranks wait for each other
PARKED_AT = "tao-sdk/parked-at"  # ... while that Job is suspended until all ranks find room
QUEUED_BY = "tao-sdk/queue"  # annotation of a second Job: the queue that is to start it
BATCH = "batch.kubernetes.io/"
RANK = f"{BATCH}job-completion-index"
OURS = "tao-toolkit=true"  # selects every object of ours


def job_name(attempt: Attempt) -> str:
    """The name of an attempt's Job and of its Service. A job id has at most 28 characters, so the
    names of the pods fit.
    """
    tail = f"-{attempt.number}" if attempt.number > 1 else ""
    return f"tao-job-{attempt.job_id}{tail}"


def second_name(job: str) -> str:
    """The name of the Job that takes this one's place if the image has no bash."""
    return f"{job}-sh"


def is_second(job: Mapping[str, Any]) -> bool:
    return str(job["metadata"]["name"]).endswith("-sh")


def secret_name(job: str) -> str:
    """The name of the Secret with the values of the job's secret variables."""
    return f"{job}-env"


def pull_name(job: str) -> str:
    """The name of the Secret with the login to the registry of the job's image."""
    return f"{job}-pull"


def files_name(job: str, part: int) -> str:
    """The name of the ConfigMap with one part of the job's command."""
    return f"{job}-files" if part == 0 else f"{job}-files-{part}"


def labels(attempt: Attempt) -> dict[str, str]:
    return {
        "tao-toolkit": "true",
        JOB_ID: attempt.job_id,
        ATTEMPT: str(attempt.number),
        STORE: attempt.store_id,
    }


def same_attempt(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """True if both objects belong to one attempt of one store's job."""
    own: Mapping[str, str] = found["metadata"].get("labels") or {}
    other: Mapping[str, str] = wanted["metadata"].get("labels") or {}
    return all(own.get(name) == other.get(name) for name in (JOB_ID, ATTEMPT, STORE))


def is_of(found: Mapping[str, Any], attempt: Attempt) -> bool:
    """True if the object belongs to this attempt of this store's job."""
    own: Mapping[str, str] = found["metadata"].get("labels") or {}
    return all(own.get(name) == value for name, value in labels(attempt).items())
