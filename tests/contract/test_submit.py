"""A job is submitted once: whatever dies, and whoever else submits at the same time."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.crashes import crasher
from support.places import Place
from tao_sdk.backends.contract import read_plan
from tao_sdk.client import Client
from tao_sdk.model.errors import CredentialError, Refused, SpecError
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


def test_killing_the_client_at_any_step_of_submit_leaves_one_job_or_none(
    place: Place, tmp_path: Path
) -> None:
    with crasher(place) as crash, place.client() as client:
        steps = crash.submit(tmp_path / "counted", 0).steps
        assert steps > 200
        chosen = sorted(
            {*range(1, steps, max(1, steps // 24)), *random.Random(20).sample(range(1, steps), 6)}
        )
        killed, left = 0, dict[int, list[str]]()
        for at in chosen:
            known = {job.id for job in client.list_jobs(look=False)}
            crashed = crash.submit(tmp_path / f"started-{at}", at)
            killed += crashed.code == -9  # the last steps are not always reached
            left[at] = [job.id for job in client.list_jobs(look=False) if job.id not in known]
        client.wait_all([job for new in left.values() for job in new], timeout=300)
        time.sleep(0.3)
        for at, new in left.items():
            ended = [client.get_job(job, look=False).status for job in new]
            assert ended in ([], [Status.COMPLETE]), f"killed at line {at} of {steps}"
            marker = tmp_path / f"started-{at}"
            started = marker.read_text().count("started") if marker.exists() else 0
            assert started == len(new), (
                f"killed at line {at} of {steps}: {len(new)} jobs, started {started} times"
            )
    assert killed >= len(chosen) * 0.9


def test_submitting_the_same_attempt_again_adopts_it(client: Client, place: Place) -> None:
    job = client.submit(JobSpec(command="sleep 30", gpu_count=0), place.platform).job
    row = client.store.attempt(job.id)
    backend = client.engine.backend_of(job)
    plan = read_plan(backend, row)
    with ThreadPoolExecutor(8) as threads:
        refs = list(threads.map(lambda _: backend.submit(plan, {}), range(8)))
    assert {ref.unique_id for ref in refs} == {row.ref.unique_id}  # pyright: ignore[reportOptionalMemberAccess]
    assert backend.find(row.attempt) == row.ref


def test_an_attempt_that_was_never_submitted_is_not_found(client: Client, place: Place) -> None:
    planned = client.plan(JobSpec(command="true", gpu_count=0), place.platform)
    assert client.engine.backend(place.platform).find(planned.plan.attempt) is None


def test_a_job_of_another_store_is_never_adopted(client: Client, place: Place) -> None:
    job = client.submit(JobSpec(command="sleep 30", gpu_count=0), place.platform).job
    attempt = client.store.attempt(job.id).attempt
    stranger = type(attempt)(
        attempt.job_id, attempt.number, attempt.platform, attempt.endpoint, "another-store"
    )
    assert client.engine.backend_of(job).find(stranger) is None


def test_a_refused_job_leaves_no_row_and_no_process(client: Client, place: Place) -> None:
    with pytest.raises((Refused, SpecError)):
        client.submit(JobSpec(command="true", gpu_count=4096, num_nodes=1), place.platform)
    assert client.list_jobs() == []


def test_two_clients_that_submit_at_once_get_a_job_each(place: Place, tmp_path: Path) -> None:
    def submit(number: int) -> int:
        with crasher(place) as crash:
            return crash.submit(tmp_path / f"both-{number}", 0).code

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(submit, range(4))) == [0] * 4
    with place.client() as client:
        ended = client.wait_all([job.id for job in client.list_jobs()], timeout=300)
    assert [job.status for job in ended] == [Status.COMPLETE] * 4
    assert [(tmp_path / f"both-{n}").read_text() for n in range(4)] == ["started\n"] * 4


def test_planning_sends_and_stores_nothing(client: Client, place: Place) -> None:
    planned = client.plan(JobSpec(command="echo planned", gpu_count=0), place.platform)
    assert planned.plan.attempt.number == 1
    assert client.list_jobs() == []
    assert place.running(planned.plan.attempt.job_id) == 0


def test_a_secret_that_is_not_set_is_named(client: Client, place: Place) -> None:
    with pytest.raises(
        CredentialError, match="WANDB_PASSWORD is listed under secrets and is not set"
    ):
        client.submit(
            JobSpec(command="true", secrets=("WANDB_PASSWORD",), gpu_count=0), place.platform
        )
    assert client.list_jobs() == []
