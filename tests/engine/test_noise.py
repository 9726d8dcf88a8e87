"""The engine decides by codes: it decides the same when every sentence of ours is noise.

Each scenario is run twice on real processes: with our sentences as they are, and with noise in
place of the sentences of reasons, rules, events and errors. What is asserted is the same.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path
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
from support.noise import say_noise
from tao_sdk.client import Client
from tao_sdk.engine import retry
from tao_sdk.engine.resubmit import resubmit
from tao_sdk.model.errors import JobNotFound, Refused, Unreachable, UsageError
from tao_sdk.model.job import Job
from tao_sdk.model.reasons import Reason
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.script_runner import build_entrypoint

KILLS_ITS_SUPERVISOR = "kill -9 $PPID; sleep 0.1"


@pytest.fixture(params=["our sentences", "noise"], autouse=True)
def sentences(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_SECONDS", 0.5)
    if request.param == "noise":
        say_noise(monkeypatch)


def start(client: Client, command: str, **more: Any) -> Job:
    return client.submit(JobSpec(command=command, gpu_count=0, **more), "local").job


def folder(client: Client, job: Job) -> Path:
    ref = client.engine.ref_of(job)
    assert ref is not None
    return Path(ref.details["job_dir"])


@pytest.mark.slow
def test_a_lost_supervisor_is_tried_again_after_its_wait(client: Client) -> None:
    job = start(client, f'[ "$TAO_ATTEMPT" = 2 ] || {KILLS_ITS_SUPERVISOR}', retries=1)
    waiting = wait_until(client, job, waits_for_next_attempt)
    assert (waiting.status, waiting.reason_code, waiting.attempt) == (
        Status.PENDING,
        Reason.NEXT_ATTEMPT,
        1,
    )
    assert waiting.next_attempt_at is not None and waiting.seen_at is not None
    assert (waiting.next_attempt_at - waiting.seen_at).total_seconds() == pytest.approx(0.5)
    assert explained(client, waiting) == ("supervisor_lost", True)
    watch(client)
    ended = client.get_job(job.id)
    assert (ended.status, ended.attempt, ended.next_attempt_at) == (Status.COMPLETE, 2, None)


@pytest.mark.slow
def test_a_lost_supervisor_is_the_end_where_no_attempt_is_left(client: Client) -> None:
    ended = wait_until(client, start(client, KILLS_ITS_SUPERVISOR), has_ended)
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.SUPERVISOR_LOST)
    assert explained(client, ended) == ("supervisor_lost", True)


def test_a_restart_of_the_machine_is_told_from_a_lost_supervisor(client: Client) -> None:
    job = start(client, KILLS_ITS_SUPERVISOR)
    for name in ("supervisor", "process"):
        path = folder(client, job) / name
        give_up = time.monotonic() + 300
        while not path.exists():
            assert time.monotonic() < give_up
            time.sleep(0.02)
        pid, begun, _, space = path.read_text().split()
        path.write_text(f"{pid} {begun} the-boot-before {space}")
    ended = wait_until(client, job, has_ended)
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.MACHINE_RESTARTED)
    assert explained(client, ended) == ("machine_restarted", True)


@pytest.mark.slow
def test_a_job_at_its_time_limit_is_not_tried_again(client: Client) -> None:
    ended = wait_until(client, start(client, "sleep 30", time_limit="1s", retries=2), has_ended)
    assert (ended.status, ended.reason_code, ended.attempt) == (Status.ERROR, Reason.TIME_LIMIT, 1)
    assert explained(client, ended) == ("time_limit", False)


def test_a_canceled_job_is_canceled(client: Client) -> None:
    job = wait_until(client, start(client, "sleep 30"), is_running)
    assert client.cancel_job(job.id)
    ended = client.get_job(job.id)
    assert (ended.status, ended.reason_code) == (Status.CANCELED, Reason.CANCELED)
    assert client.diagnose(job.id) is None


@pytest.mark.slow
def test_a_job_that_waits_for_its_next_attempt_can_be_canceled(client: Client) -> None:
    job = start(client, KILLS_ITS_SUPERVISOR, retries=1)
    wait_until(client, job, waits_for_next_attempt)
    assert client.cancel_job(job.id)
    ended = client.get_job(job.id)
    assert (ended.status, ended.attempt, ended.next_attempt_at) == (Status.CANCELED, 1, None)


@pytest.mark.slow
def test_a_job_that_cannot_be_seen_keeps_its_status(client: Client) -> None:
    job = wait_until(client, start(client, "sleep 1"), is_running)
    restore = fail_from_now_on(client, job, "observe", Unreachable("connection refused"))
    unseen = client.get_job(job.id)
    assert (unseen.status, unseen.reason_code) == (Status.RUNNING, Reason.NOT_SEEN)
    restore()
    ended = wait_until(client, job, has_ended)
    assert (ended.status, ended.reason_code) == (Status.COMPLETE, None)


@pytest.mark.slow
def test_a_job_that_waits_for_its_next_attempt_waits_on_while_it_cannot_be_seen(
    client: Client,
) -> None:
    job = start(client, KILLS_ITS_SUPERVISOR, retries=1)
    waiting = wait_until(client, job, waits_for_next_attempt)
    restore = fail_from_now_on(client, job, "observe", Unreachable("connection refused"))
    unseen = client.get_job(job.id)
    assert (unseen.reason_code, unseen.next_attempt_at) == (
        Reason.NOT_SEEN,
        waiting.next_attempt_at,
    )
    restore()
    again = client.get_job(job.id)
    assert (again.reason_code, again.next_attempt_at) == (
        Reason.NEXT_ATTEMPT,
        waiting.next_attempt_at,
    )


@pytest.mark.slow
def test_a_job_whose_folder_is_gone_was_removed_outside(client: Client) -> None:
    job = wait_until(client, start(client, "sleep 30"), is_running)
    place = folder(client, job)
    pid = int((place / "process").read_text().split()[0])
    shutil.rmtree(place)
    ended = wait_until(client, job, has_ended)
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.REMOVED_OUTSIDE)
    assert explained(client, ended) == ("removed_outside", True)
    with contextlib.suppress(ProcessLookupError):  # it may have missed its folder and ended
        os.killpg(pid, signal.SIGKILL)


def test_an_exit_code_is_the_programs(client: Client) -> None:
    ended = wait_until(client, start(client, "exit 3", retries=2), has_ended)
    assert (ended.status, ended.reason_code, ended.exit_code) == (Status.ERROR, Reason.EXIT_CODE, 3)
    assert explained(client, ended) == ("nothing_known", False)


def test_a_refused_attempt_is_the_end(client: Client) -> None:
    job = start(client, KILLS_ITS_SUPERVISOR, retries=1)
    waiting = wait_until(client, job, waits_for_next_attempt)
    fail_from_now_on(client, job, "submit", Refused("The account is closed."))
    ended = resubmit(client.engine, waiting)
    assert (ended.status, ended.reason_code, ended.attempt) == (Status.ERROR, Reason.REFUSED, 2)


def test_what_the_runner_could_not_do_is_its_reason(client: Client, tmp_path: Path) -> None:
    (tmp_path / "data.tar.gz").write_bytes(b"no archive")
    specs = {"data": str(tmp_path / "data.tar.gz")}
    job = start(client, "true {config_path}", specs=specs, inputs={"data": {"type": "folder"}})
    ended = wait_until(client, job, has_ended)
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.RUNNER_FAILED)
    assert explained(client, ended) == ("archive_broken", False)


@pytest.mark.slow
def test_a_server_that_nobody_knows_is_read_from_the_events_host(client: Client) -> None:
    for uri, rule in (
        ("s3://acme/x", "bucket_not_in_aws"),
        ("https://data.example.invalid/x", "name_not_resolved"),
    ):
        text = build_entrypoint(
            command="true {config_path}", specs={"data": uri}, inputs={"data": {"type": "file"}}
        )
        keys = {
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "not-a-real-key",
            "AWS_DEFAULT_REGION": "eu-west-3",
        }
        job = start(
            client,
            text["command"],
            env_vars={**keys, "TAO_RETRY_SECONDS": "0.1", "S3_ENDPOINT_URL": ""},
        )
        ended = wait_until(client, job, has_ended)
        assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.RUNNER_FAILED)
        assert explained(client, ended) == (rule, False)


def test_an_image_without_python3_is_known_by_the_code_of_its_event(client: Client) -> None:
    text = build_entrypoint(command="true")["command"]
    for folder_of_python in ("/usr/bin", "/usr/local/bin", "/opt/conda/bin"):
        text = text.replace(f"{folder_of_python}/python3", "/nowhere/python3")
    ended = wait_until(client, start(client, f"PATH=/nowhere\n{text}"), has_ended)
    assert (ended.status, ended.reason_code, ended.exit_code) == (
        Status.ERROR,
        Reason.RUNNER_FAILED,
        127,
    )
    assert explained(client, ended) == ("missing_python3", False)


def test_the_command_that_mends_an_error_is_told_beside_its_words(client: Client) -> None:
    job = wait_until(client, start(client, "sleep 30"), is_running)
    with pytest.raises(UsageError) as live:
        client.remove(job.id)
    with pytest.raises(JobNotFound) as unknown:
        client.get_job("nothing-like-it")
    assert (live.value.to_json()["next"], unknown.value.to_json()["next"]) == (
        f"tao cancel {job.id}",
        "tao ls",
    )
    client.cancel_job(job.id)
