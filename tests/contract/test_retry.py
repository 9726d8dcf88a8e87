"""A job that has ended is tried again because somebody asks for it: on every backend, and once,
whatever dies.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from support.crashes import crasher
from support.places import Place
from tao_sdk.client import Client
from tao_sdk.model.errors import CredentialError, UsageError
from tao_sdk.model.job import Job
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

FAILS_ONCE = "echo attempt $TAO_ATTEMPT; [ $TAO_ATTEMPT != 1 ]"


def ended(client: Client, place: Place, command: str, **more: object) -> Job:
    job = client.submit(JobSpec(command=command, gpu_count=0, **more), place.platform).job  # pyright: ignore[reportArgumentType]
    return client.wait_all([job.id], timeout=300)[0]


def test_a_job_that_failed_is_tried_again_at_once_with_the_same_id_and_results(
    client: Client, place: Place
) -> None:
    first = ended(client, place, FAILS_ONCE, retries=0)
    assert first.status is Status.ERROR
    again = client.retry_job(first.id)
    assert (again.id, again.attempt, again.results_dir) == (first.id, 2, first.results_dir)
    after = client.wait_all([first.id], timeout=300)[0]
    assert (after.status, after.attempt) == (Status.COMPLETE, 2)
    assert client.get_job_logs(first.id) == "attempt 1\nattempt 2\n"


def test_a_job_that_was_cleaned_up_is_tried_again_and_cleaned_up_again(
    client: Client, place: Place
) -> None:
    first = ended(client, place, FAILS_ONCE)
    client.gc(older_than=timedelta(0))
    client.retry_job(first.id)
    assert client.wait_all([first.id], timeout=300)[0].status is Status.COMPLETE
    assert client.gc(older_than=timedelta(0)) == [first.id]
    assert client.get_job_logs(first.id) == "attempt 1\nattempt 2\n"


def test_a_canceled_job_is_tried_again_and_can_be_canceled_again(
    client: Client, place: Place
) -> None:
    job = client.submit(JobSpec(command="sleep 60", gpu_count=0), place.platform).job
    assert client.cancel_job(job.id, grace=0.5)
    client.retry_job(job.id)
    assert not client.get_job(job.id).status.terminal
    assert client.cancel_job(job.id, grace=0.5)
    assert client.get_job(job.id).status is Status.CANCELED


def test_a_live_job_and_one_that_is_complete_are_not_tried_again(
    client: Client, place: Place
) -> None:
    live = client.submit(JobSpec(command="sleep 60", gpu_count=0), place.platform).job
    with pytest.raises(UsageError, match=f"tao cancel {live.id}"):
        client.retry_job(live.id)
    done = ended(client, place, "true")
    with pytest.raises(UsageError, match=f"tao retry {done.id} --anew"):
        client.retry_job(done.id)
    assert [client.get_job(job.id, look=False).attempt for job in (live, done)] == [1, 1]


def test_an_attempt_that_was_asked_for_uses_up_no_retry(place: Place) -> None:
    fails = (
        "[ $TAO_ATTEMPT = 1 ] && exit 3; [ $TAO_ATTEMPT = 3 ] || { "
        f"{place.fails_by_infrastructure}; }}"
    )
    with place.client(watch=True) as client:
        first = ended(client, place, fails, retries=1)
        assert first.attempt == 1
        client.retry_job(first.id)
        after = client.wait_all([first.id], timeout=300)[0]
        assert (after.status, after.attempt) == (Status.COMPLETE, 3), after.message


def test_the_secrets_of_a_further_attempt_are_those_of_now_and_a_missing_one_is_named(
    place: Place, tmp_path: Path
) -> None:
    shows = "[ $MY_TOKEN = second-value ] && exit 0; exit 1"
    with place.client(MY_TOKEN="first-value") as client:
        job = ended(client, place, shows, secrets=("MY_TOKEN",))
    with place.client() as client:
        with pytest.raises(CredentialError, match="MY_TOKEN"):
            client.retry_job(job.id)
        assert (client.get_job(job.id).status, client.get_job(job.id).attempt) == (Status.ERROR, 1)
    with place.client(MY_TOKEN="second-value") as client:
        client.retry_job(job.id)
        assert client.wait_all([job.id], timeout=300)[0].status is Status.COMPLETE
        assert client.store.keyring.load(job.id) == {}


def test_of_many_that_ask_at_once_one_starts_the_attempt(
    client: Client, place: Place, tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    job = ended(client, place, f"echo x >> {marker}; [ $TAO_ATTEMPT != 1 ]")

    def ask(_: int) -> bool:
        with place.client() as other:
            try:
                return bool(other.retry_job(job.id))
            except UsageError:
                return False

    with ThreadPoolExecutor(4) as threads:
        asked = list(threads.map(ask, range(4)))
    after = client.wait_all([job.id], timeout=300)[0]
    assert (asked.count(True), after.attempt, after.status) == (1, 2, Status.COMPLETE)
    assert marker.read_text() == "x\nx\n"


def test_the_same_can_be_run_as_a_new_job(client: Client, place: Place, tmp_path: Path) -> None:
    command = "cat {config_path}; cat note.txt"
    first = ended(
        client,
        place,
        command,
        specs={"train": {"lr": 0.5}},
        files={"note.txt": b"kept"},
        labels={"a": "b"},
    )
    new = client.submit_again(first.id).job
    after = client.wait_all([new.id], timeout=300)[0]
    assert (after.status, after.attempt, after.labels) == (Status.COMPLETE, 1, {"a": "b"})
    assert new.id != first.id
    assert client.get_job_logs(new.id) == client.get_job_logs(first.id)
    assert client.get_job_logs(new.id).endswith("kept")


def test_killing_the_client_at_any_step_of_a_retry_leaves_one_attempt(
    place: Place, tmp_path: Path
) -> None:
    with place.client() as client, crasher(place) as crash:
        [counted] = prepared(client, place, [tmp_path / "counted"])
        steps = crash.retry(counted, 0).steps
        assert steps > 200
        cuts = 4 if place.platform in ("kubernetes", "lepton") else 12  # their jobs start slowly
        anywhere = random.Random(7).sample(range(1, steps), 4)
        chosen = sorted({*range(1, steps, max(1, steps // cuts)), *anywhere, steps - 1})
        markers = [tmp_path / f"started-{at}" for at in chosen]
        jobs = dict(zip(chosen, prepared(client, place, markers), strict=True))
        for at, job in jobs.items():
            crash.retry(job, at)
        client.wait_all(list(jobs.values()), timeout=300)
        for at, job in jobs.items():
            after = client.get_job(job, look=False)
            started = (tmp_path / f"started-{at}").read_text().split()
            assert started == [str(number + 1) for number in range(after.attempt)], (
                f"killed at line {at} of {steps}"
            )
            assert (after.attempt, after.status) in ((1, Status.ERROR), (2, Status.COMPLETE))
    assert {client_attempt(place, job) for job in jobs.values()} == {1, 2}


def client_attempt(place: Place, job: str) -> int:
    with place.client() as client:
        return client.get_job(job, look=False).attempt


def prepared(client: Client, place: Place, markers: Sequence[Path]) -> list[str]:
    """A job for each marker, whose first attempt has failed."""
    specs = [
        JobSpec(command=f"echo $TAO_ATTEMPT >> {marker}; [ $TAO_ATTEMPT != 1 ]", gpu_count=0)
        for marker in markers
    ]
    jobs = [client.submit(spec, place.platform).job.id for spec in specs]
    assert {job.status for job in client.wait_all(jobs, timeout=300)} == {Status.ERROR}
    return jobs
