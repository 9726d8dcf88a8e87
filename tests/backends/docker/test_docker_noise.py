"""The engine decides by codes: it decides the same of jobs on Docker when every sentence of ours is
noise. What the daemon says stays as it is.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.decisions import (
    explained,
    fail_from_now_on,
    has_ended,
    is_running,
    wait_until,
    waits_for_next_attempt,
    watch,
)
from support.dockerd.dockerd_here import BUSYBOX, EMPTY, PYTHON, Daemon
from support.noise import say_noise
from tao_sdk.backends.docker import rules
from tao_sdk.client import Client
from tao_sdk.engine import retry
from tao_sdk.model.errors import Refused, TaoError, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.reasons import Reason
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

FIRST_WAITS = '[ "$TAO_ATTEMPT" = 2 ] || sleep 600'


@pytest.fixture(params=["our sentences", "noise"], autouse=True)
def sentences(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_SECONDS", 0.5)
    if request.param == "noise":
        say_noise(monkeypatch, rules)


def start(client: Client, command: str, image: str = BUSYBOX, **more: Any) -> Job:
    spec = JobSpec(image=image, command=command, gpu_count=0, **more)
    return client.submit(spec, "docker").job


def start_running(client: Client, command: str, **more: Any) -> Job:
    return wait_until(client, start(client, command, **more), is_running)


def container(job: Job) -> str:
    return f"tao-job-{job.id}"


def test_a_job_that_ends_well_is_complete(client: Client) -> None:
    ended = wait_until(client, start(client, "true"), has_ended)
    assert (ended.status, ended.reason_code, ended.exit_code) == (Status.COMPLETE, None, 0)
    assert client.diagnose(ended.id) is None


def test_an_exit_code_is_the_programs_and_is_not_tried_again(client: Client) -> None:
    ended = wait_until(client, start(client, "exit 3", retries=2), has_ended)
    assert (ended.status, ended.reason_code, ended.exit_code, ended.attempt) == (
        Status.ERROR,
        Reason.EXIT_CODE,
        3,
        1,
    )
    assert explained(client, ended) == ("nothing_known", False)


def test_a_job_at_its_time_limit_is_not_tried_again(client: Client) -> None:
    job = start(client, "sleep 60", image=PYTHON, time_limit=timedelta(seconds=3), retries=2)
    ended = wait_until(client, job, has_ended)
    assert (ended.status, ended.reason_code, ended.attempt) == (Status.ERROR, Reason.TIME_LIMIT, 1)
    assert explained(client, ended) == ("time_limit", False)


def test_a_container_that_is_started_again_from_outside_is_tried_again(
    client: Client, here: Daemon
) -> None:
    job = start_running(client, FIRST_WAITS, retries=1)
    here.docker("restart", "--time", "0", container(job))
    waiting = wait_until(client, job, waits_for_next_attempt)
    assert (waiting.status, waiting.reason_code, waiting.attempt) == (
        Status.PENDING,
        Reason.NEXT_ATTEMPT,
        1,
    )
    assert explained(client, waiting) == ("docker.started_again", True)
    watch(client)
    ended = client.get_job(job.id)
    assert (ended.status, ended.attempt, ended.exit_code) == (Status.COMPLETE, 2, 0)


def test_a_canceled_job_is_canceled(client: Client) -> None:
    job = start_running(client, "sleep 600")
    assert client.cancel_job(job.id, grace=0)
    ended = client.get_job(job.id)
    assert (ended.status, ended.reason_code) == (Status.CANCELED, Reason.CANCELED)
    assert client.diagnose(job.id) is None


def test_a_job_that_waits_for_its_next_attempt_can_be_canceled(
    client: Client, here: Daemon
) -> None:
    job = start_running(client, "sleep 600", retries=1)
    here.docker("restart", "--time", "0", container(job))
    wait_until(client, job, waits_for_next_attempt)
    assert client.cancel_job(job.id, grace=0)
    ended = client.get_job(job.id)
    assert (ended.status, ended.attempt, ended.next_attempt_at) == (Status.CANCELED, 1, None)


def test_a_container_that_is_removed_from_outside_is_lost(client: Client, here: Daemon) -> None:
    job = start_running(client, "sleep 600")
    here.docker("rm", "--force", container(job))
    ended = wait_until(client, job, has_ended)
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.REMOVED_OUTSIDE)
    assert explained(client, ended) == ("removed_outside", True)


def test_a_container_that_is_stopped_from_outside_is_told_from_its_own_end(
    client: Client, here: Daemon
) -> None:
    job = start_running(client, "sleep 600")
    here.docker("kill", container(job))
    ended = wait_until(client, job, has_ended)
    assert (ended.status, ended.reason_code, ended.exit_code) == (
        Status.ERROR,
        Reason.EXIT_CODE,
        137,
    )
    assert explained(client, ended) == ("docker.stopped_outside", True)


def test_a_job_that_cannot_be_seen_keeps_its_status(client: Client) -> None:
    job = start_running(client, "sleep 600")
    restore = fail_from_now_on(client, job, "observe", Unreachable("connection refused"))
    unseen = client.get_job(job.id)
    assert (unseen.status, unseen.reason_code) == (Status.RUNNING, Reason.NOT_SEEN)
    restore()
    again = client.get_job(job.id)
    assert (again.status, again.reason_code) == (Status.RUNNING, None)


def test_an_image_without_a_shell_is_known_by_the_daemons_own_words(client: Client) -> None:
    """The daemon says so at once, or when the container has ended."""
    try:
        rule, retryable = explained(
            client, wait_until(client, start(client, "true", EMPTY), has_ended)
        )
    except Refused as refused:
        rule, retryable = refused.code, False
    assert (rule, retryable) == ("docker.no_shell", False)


def test_an_image_that_is_not_there_and_is_not_pulled_is_refused(client: Client) -> None:
    spec = JobSpec(image="tao-test-absent", command="true", gpu_count=0)
    with pytest.raises(TaoError) as refused:
        client.submit(spec, "docker", {"pull": "never"})
    assert refused.value.code == "image.missing"
