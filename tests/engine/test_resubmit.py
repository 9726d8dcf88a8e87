"""A further attempt: what becomes of the job when it cannot be started."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from support.waiting import until
from tao_sdk.client import Client
from tao_sdk.engine import retry
from tao_sdk.engine.listening import Worth
from tao_sdk.engine.resubmit import resubmit
from tao_sdk.engine.submit import lease_of
from tao_sdk.engine.watch import Watcher
from tao_sdk.model.errors import Refused, SpecError, TaoError, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.plan import Attempt
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


@pytest.fixture
def callers_own() -> dict[str, str]:
    return {"NGC_KEY": "a-secret-that-is-kept"}


class Failing:
    """The real backend, one verb of which always fails."""

    def __init__(self, backend: Any, verb: str, error: TaoError) -> None:
        self._backend, self._verb, self._error = backend, verb, error

    def __getattr__(self, name: str) -> Any:
        return self._fail if name == self._verb else getattr(self._backend, name)

    def _fail(self, *arguments: Any) -> Any:
        raise self._error


def waiting(client: Client, verb: str, error: TaoError) -> Job:
    """A job whose first attempt failed by infrastructure, on a backend that fails from now on."""
    hooks = {"on_error": "cat > /dev/null"}
    spec = JobSpec(command="kill -9 $PPID; sleep 0.1", gpu_count=0, retries=1, hooks=hooks)
    job = client.submit(spec, "local").job
    give_up = time.monotonic() + 300
    while "waits for a watcher" not in (job := client.get_job(job.id)).message:
        assert time.monotonic() < give_up, job
        time.sleep(0.05)
    endpoint = client.store.attempt(job.id).attempt.endpoint
    failing = Failing(client.engine.backend("local", endpoint), verb, error)
    client.engine._backends["local", endpoint] = failing  # pyright: ignore
    return job


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "error"),
    [
        ("submit", Refused("The account is closed.")),
        ("plan_again", SpecError("The partition is gone.")),
    ],
)
def test_a_refusal_of_a_further_attempt_is_an_end_like_any_other(
    client: Client, verb: str, error: TaoError
) -> None:
    job = waiting(client, verb, error)
    assert client.engine.store.keyring.load(job.id)
    ended = resubmit(client.engine, job)
    assert (ended.status, ended.message) == (Status.ERROR, str(error))
    assert ended.ended is not None
    events = list(client.events(job.id))
    assert [event.status for event in events if event.kind == "status"][-1] is Status.ERROR
    assert [event.data["hook"] for event in events if event.kind == "hook-due"] == ["on_error"]
    assert not client.engine.store.keyring.load(job.id)
    assert client.store.lease_holder(lease_of(job.id)) is None


class SlowSubmit:
    """The real backend, each submit of which takes a while. The plans of `fails` cannot be made."""

    def __init__(self, backend: Any, seconds: float, fails: str = "") -> None:
        self._backend, self._seconds, self._fails = backend, seconds, fails
        self.capabilities = replace(backend.capabilities, submits=8)
        self.attempts: list[Attempt] = []
        self.durations: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def plan_again(self, last: Any, job: Any, options: Any, attempt: Attempt) -> Any:
        if attempt.job_id == self._fails:
            raise Unreachable("connection refused")
        return self._backend.plan_again(last, job, options, attempt)

    def submit(self, plan: Any, secrets: Mapping[str, str]) -> Any:
        began = time.monotonic()
        self.attempts.append(plan.attempt)
        time.sleep(self._seconds)
        try:
            return self._backend.submit(plan, secrets)
        finally:
            self.durations.append(time.monotonic() - began)


def submit_failing(client: Client, number: int) -> list[str]:
    """Jobs whose first attempt has failed by infrastructure and whose second one is due."""
    fails_once = "[ $TAO_ATTEMPT = 2 ] || { kill -9 $PPID; sleep 0.1; }"
    spec = JobSpec(command=fails_once, gpu_count=0, retries=1)
    ids = [client.submit(spec, "local").job.id for _ in range(number)]
    until(lambda: all(job.waits_for_next_attempt for job in client.list_jobs()))
    return ids


def make_slow(client: Client, seconds: float, fails: str = "") -> SlowSubmit:
    [endpoint] = client.store.live_endpoints()
    slow = SlowSubmit(client.engine.backend(*endpoint), seconds, fails)
    client.engine._backends[endpoint] = slow  # pyright: ignore
    return slow


def pass_once(watcher: Watcher) -> float:
    """Seconds until all that is due was begun."""
    began = time.monotonic()
    watcher._look_and_act(Worth(watcher.engine.store.live(), []))  # pyright: ignore
    return time.monotonic() - began


@pytest.mark.slow
def test_further_attempts_of_many_jobs_start_side_by_side(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_SECONDS", 0.0)
    ids = submit_failing(client, 8)
    slow = make_slow(client, 1.0)
    seconds = pass_once(Watcher(client.engine))
    assert {(attempt.job_id, attempt.number) for attempt in slow.attempts} == {
        (job_id, 2) for job_id in ids
    }
    assert seconds < sum(slow.durations) / 3


@pytest.mark.slow
def test_a_further_attempt_that_cannot_start_holds_up_none_beside_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_SECONDS", 0.0)
    bad, *others = submit_failing(client, 4)
    slow = make_slow(client, 0.1, fails=bad)
    pass_once(Watcher(client.engine))
    assert sorted(attempt.job_id for attempt in slow.attempts) == sorted(others)
    assert client.store.get(bad).attempt == 1
    assert all(job.status is Status.COMPLETE for job in client.wait_all(others, timeout=300))
    client.cancel_job(bad)


@pytest.mark.slow
def test_two_watchers_at_once_start_no_attempt_twice(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_SECONDS", 0.0)
    ids = submit_failing(client, 6)
    with Client(settings=client.settings) as another:
        watched = [client, client, another]
        slow_ones = [make_slow(client, 0.3), make_slow(another, 0.3)]
        threads = [
            threading.Thread(target=pass_once, args=(Watcher(each.engine),)) for each in watched
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    attempts = [attempt for slow in slow_ones for attempt in slow.attempts]
    assert sorted((attempt.job_id, attempt.number) for attempt in attempts) == sorted(
        (job_id, 2) for job_id in ids
    )


@pytest.mark.slow
def test_attempts_whose_plans_pick_gpus_start_one_after_the_other(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_SECONDS", 0.0)
    submit_failing(client, 3)
    slow = make_slow(client, 0.3)
    slow.capabilities = replace(slow.capabilities, picks_gpus=True)
    began = time.monotonic()
    with_gpus = [replace(job, gpu_count=1) for job in client.store.live()]
    Watcher(client.engine)._resubmit_all(with_gpus)  # pyright: ignore
    assert len(slow.attempts) == 3
    assert time.monotonic() - began > sum(slow.durations)


def test_a_backend_that_cannot_be_asked_leaves_the_attempt_due_and_its_lease_free(
    client: Client,
) -> None:
    job = waiting(client, "logs", Unreachable("connection refused"))
    with pytest.raises(Unreachable):
        resubmit(client.engine, job)
    assert client.store.get(job.id).attempt == 1
    assert client.store.lease_holder(lease_of(job.id)) is None
