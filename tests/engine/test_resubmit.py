"""A further attempt: what becomes of the job when it cannot be started."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tao_sdk.client import Client
from tao_sdk.engine.resubmit import resubmit
from tao_sdk.engine.submit import lease_of
from tao_sdk.model.errors import Refused, SpecError, TaoError, Unreachable
from tao_sdk.model.job import Job
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
    give_up = time.monotonic() + 90
    while "waits for a watcher" not in (job := client.get_job(job.id)).message:
        assert time.monotonic() < give_up, job
        time.sleep(0.05)
    endpoint = client.store.attempt(job.id).attempt.endpoint
    failing = Failing(client.engine.backend("local", endpoint), verb, error)
    client.engine._backends["local", endpoint] = failing  # pyright: ignore
    return job


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


def test_a_backend_that_cannot_be_asked_leaves_the_attempt_due_and_its_lease_free(
    client: Client,
) -> None:
    job = waiting(client, "logs", Unreachable("connection refused"))
    with pytest.raises(Unreachable):
        resubmit(client.engine, job)
    assert client.store.get(job.id).attempt == 1
    assert client.store.lease_holder(lease_of(job.id)) is None
