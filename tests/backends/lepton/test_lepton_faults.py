"""What goes wrong on the way to a workspace: nothing is made twice, and nothing is lost."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from support.lepton.rest_server import LOST_REPLY, LOST_REQUEST, SILENCE, Fault, RestServer
from support.waiting import until
from tao_sdk.client import Client
from tao_sdk.model.errors import CredentialError, Refused, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

pytestmark = pytest.mark.slow
SECRET = "a-secret-of-this-test"


def submit(client: Client, command: str, **more: object) -> Job:
    spec = JobSpec(image="stand-in", command=command, **{"gpu_count": 0, **more})  # pyright: ignore[reportArgumentType]
    return client.submit(spec, "lepton").job


def made(server: RestServer, job: Job) -> int:
    """How many jobs the workspace has made of one of ours."""
    jobs = list(server.workspace.jobs.values())
    return sum(one.metadata["labels"]["tao-sdk-job-id"] == job.id for one in jobs)


@pytest.mark.parametrize(
    "faults", [(LOST_REPLY,), (LOST_REQUEST,), (LOST_REQUEST, LOST_REPLY), (500,)]
)
def test_a_create_whose_answer_is_lost_makes_one_job(
    client: Client, server: RestServer, faults: tuple[int | str, ...]
) -> None:
    server.workspace.times.list_lag = 1.0
    server.faults += [Fault("POST", "/jobs", what) for what in faults]
    job = submit(client, "echo once")
    assert "not known whether it started" in job.message
    until(lambda: client.get_job(job.id).status is Status.COMPLETE)
    assert made(server, job) == 1
    assert client.get_job_logs(job.id) == "once\n"


def test_a_refused_job_leaves_no_row_and_no_secret(client: Client, server: RestServer) -> None:
    server.faults.append(Fault("POST", "/jobs", 403))
    with pytest.raises(Refused, match="a fault of the test"):
        submit(client, "true", env_vars={"MY_KEY": SECRET})
    assert client.list_jobs(look=False) == []
    assert server.workspace.secrets == {}


def test_an_old_token_is_told_as_that_and_changes_no_job(
    client: Client, server: RestServer, settings: Settings
) -> None:
    job = submit(client, "sleep 60")
    until(lambda: client.get_job(job.id).status is Status.RUNNING)
    old = {**settings.environ, "LEPTON_AUTH_TOKEN": "another"}
    with Client(settings=Settings(old), watch=False) as late:
        seen = late.get_job(job.id)
        assert seen.status is Status.RUNNING
        assert "does not take LEPTON_AUTH_TOKEN" in seen.message
        with pytest.raises(CredentialError, match="LEPTON_AUTH_TOKEN"):
            submit(late, "true")
    assert client.cancel_job(job.id)


@pytest.mark.parametrize("fault", [Fault("GET", "/jobs", 500, 2), Fault("GET", "/jobs", SILENCE)])
def test_a_workspace_that_cannot_be_asked_leaves_the_status_as_it_was(
    client: Client, server: RestServer, fault: Fault
) -> None:
    job = submit(client, "sleep 60")
    until(lambda: client.get_job(job.id).status is Status.RUNNING)
    server.faults.append(replace(fault))
    server.faults.append(Fault("GET", "/workspace", SILENCE))
    seen = client.get_job(job.id)
    assert seen.status is Status.RUNNING
    assert "not seen now" in seen.message
    server.faults.clear()
    until(lambda: "not seen" not in client.get_job(job.id).message)


def test_a_busy_workspace_is_asked_again_when_it_says(client: Client, server: RestServer) -> None:
    server.faults.append(Fault("POST", "/jobs", 429, headers={"Retry-After": "1"}))
    began = time.monotonic()
    job = submit(client, "true")
    assert time.monotonic() - began >= 1
    until(lambda: client.get_job(job.id).status is Status.COMPLETE)
    assert made(server, job) == 1


def test_a_job_that_the_archive_has_ended_as_its_counts_say(
    client: Client, server: RestServer
) -> None:
    ends = {"true": Status.COMPLETE, "exit 3": Status.ERROR}
    jobs = {submit(client, command).id: status for command, status in ends.items()}

    def are_archived() -> bool:
        own = [one for one in server.workspace.jobs.values() if one.completed]
        for one in own:
            one.spec["ttl_seconds_after_finished"] = -1
        return sum(one.metadata["labels"]["tao-sdk-job-id"] in jobs for one in own) == len(jobs)

    until(are_archived)
    ended = client.wait_all(list(jobs), timeout=300)
    assert [job.status for job in ended] == list(jobs.values())


def test_a_state_that_is_not_known_for_a_while_changes_nothing(
    client: Client, server: RestServer
) -> None:
    job = submit(client, "sleep 60")
    until(lambda: client.get_job(job.id).status is Status.RUNNING)
    [lives] = [one for one in server.workspace.jobs.values() if one.state == "Running"]
    lives.hides_as = "UNK"
    assert client.get_job(job.id).status is Status.RUNNING
    lives.hides_as = ""


def test_no_secret_stands_in_the_job_and_none_stays_after_it(
    client: Client, server: RestServer
) -> None:
    job = submit(client, "[ ${#MY_KEY} = 21 ]", env_vars={"MY_KEY": SECRET})
    [stored] = server.workspace.secrets
    assert client.wait(job.id, timeout=300).status == "Complete"
    bodies = [one.to_json() for one in server.workspace.jobs.values()]
    assert SECRET not in str(bodies)
    client.remove(job.id)
    assert stored not in server.workspace.secrets


def test_an_unreachable_workspace_leaves_no_row(settings: Settings) -> None:
    environ = {**settings.environ, "LEPTON_WORKSPACE_URL": "http://127.0.0.1:9/nothing"}
    with Client(settings=Settings(environ), watch=False) as client:
        with pytest.raises(Unreachable):
            submit(client, "true")
        assert client.list_jobs(look=False) == []
