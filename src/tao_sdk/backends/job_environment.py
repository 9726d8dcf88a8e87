"""A job's environment: the names that every backend sets, which layer wins, and secrets in it.

Here: the order of the layers, and the layers that all backends share. Not here: what one platform
adds (its own render), and how the environment gets to the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tao_sdk.backends.results_place import own_place
from tao_sdk.model.plan import Attempt
from tao_sdk.model.secrets import SecretRef, split_secrets
from tao_sdk.model.spec import JobSpec

Variables = Mapping[str, "str | SecretRef"]

# Python writes its lines at once. Otherwise it buffers them in a pipe and loses them when killed.
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}


def job_variables(
    spec: JobSpec, defaults: Variables, fixed: Variables
) -> dict[str, str | SecretRef]:
    """Return the environment: UNBUFFERED, `defaults`, the job's own, and last `fixed`.

    A later layer wins, so no job can change `fixed`.
    """
    return {**UNBUFFERED, **defaults, **asked_variables(spec), **fixed}


def grace_variable(seconds: float) -> dict[str, str]:
    """TAO_GRACE: the seconds between SIGTERM and SIGKILL."""
    return {"TAO_GRACE": str(round(seconds))}


def grace_file_variable(path: str) -> dict[str, str]:
    """TAO_GRACE_FILE: the file to which a cancel writes its grace in seconds before it signals."""
    return {"TAO_GRACE_FILE": path}


def grace_text(grace: timedelta) -> str:
    """The content of TAO_GRACE_FILE: seconds as a plain decimal number."""
    return f"{max(grace.total_seconds(), 0):.3f}"


def attempt_variables(attempt: Attempt, results_root: str) -> dict[str, str]:
    """The variables for the attempt's identity and its results folder. No job can set these."""
    return {**identity(attempt), "TAO_RESULTS_DIR": own_place(results_root, attempt)}


def asked_variables(spec: JobSpec) -> dict[str, str | SecretRef]:
    """The variables that the job asks for, with a reference in place of each secret."""
    return split_secrets(spec.env_vars, spec.secrets)[0]


def identity(attempt: Attempt) -> dict[str, str]:
    """The variables for the job's id and the attempt's number. No job can set these."""
    return {"TAO_JOB_ID": attempt.job_id, "TAO_ATTEMPT": str(attempt.number)}


def secret_names(variables: Variables) -> tuple[str, ...]:
    """The names of the secrets whose values `submit` needs, sorted and without repeats."""
    return tuple(
        sorted({value.name for value in variables.values() if isinstance(value, SecretRef)})
    )


def revealed(variables: Variables, secrets: Mapping[str, str]) -> dict[str, str]:
    """The variables with the secrets' values. Use this only where the job receives them."""
    return {
        name: secrets[value.name] if isinstance(value, SecretRef) else value
        for name, value in variables.items()
    }


def variables_to_json(variables: Variables) -> dict[str, Any]:
    return {
        name: {"secret": value.name} if isinstance(value, SecretRef) else value
        for name, value in variables.items()
    }


def variables_from_json(data: Mapping[str, Any]) -> dict[str, str | SecretRef]:
    return {
        name: value if isinstance(value, str) else SecretRef(value["secret"])
        for name, value in data.items()
    }
