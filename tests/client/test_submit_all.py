"""Many jobs submitted in one call: side by side, each for itself, and whole also after Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tao_sdk.client import Client
from tao_sdk.engine.submit import Submission, lease_of
from tao_sdk.model.errors import Refused, SpecError, TaoError, UsageError
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.platforms.local import LocalSDK


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of a caller with a home, a state folder and a current folder of its own."""
    monkeypatch.chdir(tmp_path)
    return Settings(
        {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
        }
    )


@pytest.fixture
def client(settings: Settings) -> Iterator[Client]:
    with Client(settings=settings) as client:
        yield client
        client.cancel_jobs([job.id for job in client.store.live()], grace=0)


class SlowSubmit:
    """The real local backend, each submit of which takes a while."""

    def __init__(self, client: Client, seconds: float, **capabilities: Any) -> None:
        self._backend, self._seconds = client.engine.backend("local"), seconds
        self.capabilities = replace(self._backend.capabilities, **capabilities)
        self.begun = threading.Event()
        self.durations: list[float] = []
        self.now, self.most_at_once = 0, 0
        self._counting = threading.Lock()
        for endpoint in ("", self._backend.endpoint):
            client.engine._backends["local", endpoint] = self  # pyright: ignore
        client.engine.places._by_name["local"] = self  # pyright: ignore

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def submit(self, plan: Any, secrets: Mapping[str, str]) -> Any:
        began = time.monotonic()
        self._count(1)
        self.begun.set()
        time.sleep(self._seconds)
        try:
            return self._backend.submit(plan, secrets)
        finally:
            self._count(-1)
            self.durations.append(time.monotonic() - began)

    def _count(self, change: int) -> None:
        with self._counting:
            self.now += change
            self.most_at_once = max(self.most_at_once, self.now)


def quick(number: int) -> list[JobSpec]:
    return [JobSpec(command=f"echo {n}", gpu_count=0, name=f"part-{n}") for n in range(number)]


def submission(answer: Submission | TaoError) -> Submission:
    assert isinstance(answer, Submission), answer
    return answer


@pytest.mark.slow
def test_many_jobs_are_submitted_side_by_side_and_answered_in_their_order(client: Client) -> None:
    slow = SlowSubmit(client, 1.0, submits=8)
    began = time.monotonic()
    answers = client.submit_all(quick(8), "local", parent="a-sweep")
    seconds = time.monotonic() - began
    jobs = [submission(answer).job for answer in answers]
    assert [job.name for job in jobs] == [f"part-{n}" for n in range(8)]
    assert {job.parent for job in jobs} == {"a-sweep"}
    assert seconds < sum(slow.durations) / 3
    assert all(job.status is Status.COMPLETE for job in client.wait_all([job.id for job in jobs]))


@pytest.mark.slow
def test_no_more_are_submitted_at_once_than_the_backend_takes(client: Client) -> None:
    slow = SlowSubmit(client, 0.1, submits=2)
    client.submit_all(quick(6), "local")
    assert slow.most_at_once == 2


@pytest.mark.slow
def test_jobs_whose_plans_pick_gpus_are_submitted_one_after_the_other(client: Client) -> None:
    slow = SlowSubmit(client, 0.1, submits=4, picks_gpus=True, needs_image=False)
    client.submit_all([{"command": "true", "gpu_count": 0}] * 4, "local")
    assert slow.most_at_once > 1
    slow.most_at_once = 0
    client.submit_all([{"command": "true", "gpu_count": 1}] * 4, "local")
    assert slow.most_at_once == 1


def test_a_refused_job_stops_no_other_and_its_error_stands_in_its_place(client: Client) -> None:
    first, last = quick(2)
    wrong = {"command": "true", "gpu_count": 0, "time_limit": "soon"}
    missing = {"command": "true", "gpu_count": 0, "inputs": {"data": "/there/is/no/such/file"}}
    answers = client.submit_all([first, wrong, missing, last], "local")
    assert isinstance(answers[1], SpecError)
    assert "time_limit" in answers[1].what
    assert isinstance(answers[2], Refused)
    stored = {job.id for job in client.list_jobs(look=False)}
    assert stored == {submission(answers[0]).job.id, submission(answers[3]).job.id}


@pytest.mark.slow
def test_after_an_interrupt_each_job_is_stored_and_submitted_or_not_there_at_all(
    client: Client,
) -> None:
    slow = SlowSubmit(client, 0.5, submits=3)

    def interrupt() -> None:
        slow.begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        client.submit_all(quick(40), "local")
    interrupter.join()
    stored = [job.id for job in client.list_jobs(look=False)]
    assert 0 < len(stored) == len(slow.durations) < 40
    assert all(client.store.attempt(job_id).ref for job_id in stored)
    assert [client.store.lease_holder(lease_of(job_id)) for job_id in stored] == [None] * len(
        stored
    )


@pytest.mark.slow
def test_an_interrupt_does_not_cut_the_submit_of_a_single_job(client: Client) -> None:
    slow = SlowSubmit(client, 0.5)

    def interrupt() -> None:
        slow.begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        client.submit_all(quick(1), "local")
    interrupter.join()
    [job] = client.list_jobs(look=False)
    assert client.store.attempt(job.id).ref


@pytest.mark.parametrize("specs", [JobSpec(command="true"), {"command": "true"}, "true", None])
def test_one_job_in_place_of_a_list_is_said(client: Client, specs: Any) -> None:
    with pytest.raises(UsageError, match=r"it must be a list of jobs"):
        client.submit_all(specs, "local")


def test_a_platform_that_cannot_be_used_is_said_once(client: Client) -> None:
    with pytest.raises(UsageError, match="no platform is named"):
        client.submit_all(quick(2))
    with pytest.raises(UsageError, match="mars"):
        client.submit_all(quick(2), "mars")
    assert client.submit_all([], "local") == []


def test_an_sdk_submits_many_to_its_own_platform(settings: Settings) -> None:
    with LocalSDK(settings=settings) as sdk:
        answers = sdk.submit_all(quick(3))
        ids = [submission(answer).job.id for answer in answers]
        assert [job.status for job in sdk.wait_all(ids)] == [Status.COMPLETE] * 3


def test_callbacks_of_each_job_are_called(settings: Settings) -> None:
    told: list[str] = []
    hooks = {"on_complete": lambda job: told.append(job.name)}
    with LocalSDK(settings=settings) as sdk:
        specs = [replace(spec, hooks=hooks) for spec in quick(3)]
        ids = [submission(answer).job.id for answer in sdk.submit_all(specs)]
        sdk.wait_all(ids)
        deadline = time.monotonic() + 300
        while len(told) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
    assert sorted(told) == ["part-0", "part-1", "part-2"]
