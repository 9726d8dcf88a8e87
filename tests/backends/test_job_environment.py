"""A job's environment: whose value of a variable counts."""

from __future__ import annotations

from tao_sdk.backends.job_environment import job_variables
from tao_sdk.model.spec import JobSpec

NAME = "PYTHONUNBUFFERED"


def test_python_writes_at_once_unless_the_caller_or_the_job_says_otherwise() -> None:
    silent = JobSpec(command="train")
    asking = JobSpec(command="train", env_vars={NAME: ""})
    assert job_variables(silent, {}, {}) == {NAME: "1"}
    assert job_variables(silent, {NAME: "x"}, {})[NAME] == "x"
    assert job_variables(asking, {NAME: "x"}, {})[NAME] == ""
