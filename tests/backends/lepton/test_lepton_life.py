"""The life of jobs in a workspace: what runs, ends, is canceled, and is never made twice."""

from __future__ import annotations

import pytest

from support.lepton.rest_server import RestServer
from support.waiting import until
from tao_sdk.backends.lepton import parse
from tao_sdk.backends.lepton.parse import JobEnd, RankEnd
from tao_sdk.client import Client
from tao_sdk.engine.replicas import replicas
from tao_sdk.model.job import Job
from tao_sdk.model.observation import Phase
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


RUNS = {"metadata": {"id": "tao-job-a-98bw"}, "spec": {"completions": 2}}


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ({"state": "Queueing"}, Phase.PENDING),
        ({"state": "Running", "ready": 1}, Phase.RUNNING),
        ({"state": "UNK"}, Phase.UNREACHABLE),
        ({"state": "Deleting"}, Phase.ABSENT),
        ({"state": "Archived", "succeeded": 2}, Phase.SUCCEEDED),
        ({"state": "Archived", "succeeded": 1, "failed": 1}, Phase.FAILED),
        ({"state": "Hibernating"}, Phase.UNKNOWN),
    ],
)
def test_a_state_is_what_it_says_and_a_new_word_is_kept(
    status: dict[str, object], phase: Phase
) -> None:
    seen = parse.observation({**RUNS, "status": status})
    assert (seen.phase, seen.raw) == (phase, status["state"])


def test_a_job_of_which_a_node_is_missing_runs_and_says_so() -> None:
    seen = parse.observation({**RUNS, "status": {"state": "Running", "ready": 1}})
    assert seen.reason == "1 of 2 nodes are up"


def test_an_ended_job_runs_until_the_end_of_its_log_was_seen() -> None:
    job = {**RUNS, "status": {"state": "Failed", "failed": 1}}
    assert parse.observation(job, JobEnd()).phase is Phase.RUNNING
    late = [RankEnd(2, 143), RankEnd(1, 7)]
    assert parse.observation(job, JobEnd(late, is_whole=True)).exit_code == 7


def test_why_a_job_waits_names_what_its_replicas_say(client: Client, server: RestServer) -> None:
    server.workspace.times.start = 5.0
    job = submit(client, "true")
    until(lambda: "prepare it" in client.get_job(job.id).message)
    found = client.diagnose(job.id)
    assert found is not None and found.rule == "lepton.pulling"
    assert "Pulling image" in found.cause
    [replica] = replicas(client.engine, client.get_job(job.id))
    assert (replica.rank, replica.issue_reason) == (0, "InProgress")
    client.cancel_job(job.id)
