"""The names of an attempt's objects, and the labels that find them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tao_sdk.model.plan import Attempt

JOB_ID, ATTEMPT, STORE = "tao-sdk-job-id", "tao-sdk-attempt", "tao-sdk-store"
PREFIX = "tao-job-"
PULL_PREFIX = "tao-pull-"
MARK = "@tao-end"  # begins the last line of every log
MOUNTS = "/mnt"  # the folder of the volumes, in the job


def job_name(attempt: Attempt) -> str:
    """The name of an attempt's job. The workspace adds four letters to it for the job's id.

    A job id has at most 28 characters, so that this has at most 36, as many as a name may have.
    """
    return f"{PREFIX}{attempt.job_id}"


def labels(attempt: Attempt) -> dict[str, str]:
    return {
        "tao-toolkit": "true",
        JOB_ID: attempt.job_id,
        ATTEMPT: str(attempt.number),
        STORE: attempt.store_id,
    }


def is_of(job: Mapping[str, Any], attempt: Attempt) -> bool:
    """True if the job belongs to this attempt of this store's job."""
    own: Mapping[str, str] = job["metadata"].get("labels") or {}
    return all(own.get(name) == value for name, value in labels(attempt).items())


def selector(name: str, value: str) -> str:
    """A label selector. Whether the workspace takes several labels is not known, so it has one."""
    return f"{name}={value}"


def secret_prefix(attempt: Attempt) -> str:
    """How the names of the attempt's workspace secrets begin."""
    return f"{PREFIX}{attempt.job_id}-{attempt.number}-"


def job_of_secret(name: str) -> str:
    """The job id in the name of a workspace secret of ours."""
    return name.removeprefix(PREFIX).rsplit("-", 2)[0]


def secret_names(attempt: Attempt, variables: Iterable[str]) -> dict[str, str]:
    """Variable -> the name of the workspace secret with its value. A name of a variable may have
    letters that a secret's name may not, so the secrets are numbered.
    """
    prefix = secret_prefix(attempt)
    return {name: f"{prefix}{number}" for number, name in enumerate(sorted(variables), 1)}


def end_mark(attempt: Attempt) -> str:
    """How the last line of each rank's log begins."""
    return f"{MARK} {attempt.job_id} {attempt.number}"
