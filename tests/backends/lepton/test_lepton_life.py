"""The life of jobs in a workspace: what runs, ends, is canceled, and is never made twice."""

from __future__ import annotations

import pytest

from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

pytestmark = pytest.mark.slow


def submit(client: Client, command: str, **more: object) -> Job:
    spec = JobSpec(image="ubuntu:24.04", command=command, **{"gpu_count": 0, **more})  # pyright: ignore[reportArgumentType]
    return client.submit(spec, "lepton").job


def test_a_job_ends_with_its_commands_code_which_the_api_does_not_tell(client: Client) -> None:
    ends = {
        "echo well": (Status.COMPLETE, 0),
        "exit 3": (Status.ERROR, 3),
        "kill -9 $$": (Status.ERROR, 137),
    }
    jobs = [submit(client, command).id for command in ends]
    ended = client.wait_all(jobs, timeout=300)
    assert [(job.status, job.exit_code) for job in ended] == list(ends.values())
    assert client.get_job_logs(jobs[0]) == "well\n"
