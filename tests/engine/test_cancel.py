"""Cancel: a backend may only tell the attempts to end; the end is then looked for."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tao_sdk.backends.contract import Backend, CancelAnswer
from tao_sdk.client import Client
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.plan import Ref
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


class OnlyTells:
    """The local backend, which answers a cancel before it is over."""

    def __init__(self, client: Client, job_id: str, ends: bool = True) -> None:
        self.ends, self.looks = ends, 0
        job = client.store.get(job_id)
        self._backend: Backend[Any, Any, Any] = client.engine.backend_of(job)
        client.engine._backends["local", self._backend.endpoint] = self  # pyright: ignore

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def observe(self, refs: Sequence[Ref]) -> Any:
        self.looks += 1
        return self._backend.observe(refs)

    def cancel(self, refs: Sequence[Ref], grace: timedelta) -> Mapping[Ref, CancelAnswer]:
        now = self._backend.observe(refs)
        if self.ends:
            threading.Thread(target=self._backend.cancel, args=(refs, grace)).start()
        return now


def sleepers(client: Client, number: int) -> list[str]:
    spec = JobSpec(command="sleep 300", gpu_count=0)
    return [client.submit(spec, "local").job.id for _ in range(number)]


@pytest.mark.slow
def test_jobs_that_were_only_told_to_end_are_looked_for_together(client: Client) -> None:
    jobs = sleepers(client, 5)
    telling = OnlyTells(client, jobs[0])
    assert client.cancel_jobs(jobs, grace=5) == dict.fromkeys(jobs, True)
    assert 0 < telling.looks < 5 * 5
    assert {client.get_job(job).status for job in jobs} == {Status.CANCELED}


@pytest.mark.slow
def test_a_job_whose_end_is_not_seen_within_the_grace_is_answered_false(client: Client) -> None:
    (job,) = sleepers(client, 1)
    telling = OnlyTells(client, job, ends=False)
    assert client.cancel_job(job, grace=0) is False
    assert telling.looks > 0
    telling.ends = True
    assert client.cancel_job(job, grace=5) is True


class OutOfReach(OnlyTells):
    def cancel(self, refs: Sequence[Ref], grace: timedelta) -> Mapping[Ref, CancelAnswer]:
        if not self.ends:
            raise Unreachable("Nobody answers.")
        return self._backend.cancel(refs, grace)


def test_an_endpoint_that_cannot_be_reached_is_the_answer_for_each_of_its_jobs(
    client: Client,
) -> None:
    jobs = sleepers(client, 2)
    away = OutOfReach(client, jobs[0], ends=False)
    answers = client.cancel_jobs(jobs, grace=0)
    assert [str(answer) for answer in answers.values()] == [
        "Nobody answers. The cancel is written down. To carry it out as soon as that answers: "
        f"tao wait {job}"
        for job in jobs
    ]
    away.ends = True
    assert client.cancel_jobs(jobs, grace=5) == dict.fromkeys(jobs, True)


@pytest.mark.slow
def test_a_cancel_that_could_not_be_sent_is_carried_out_by_who_waits(client: Client) -> None:
    (job,) = sleepers(client, 1)
    away = OutOfReach(client, job, ends=False)
    with pytest.raises(Unreachable, match="The cancel is written down"):
        client.cancel_job(job, grace=0)
    assert "could not be told so" in client.get_job(job, look=False).message
    away.ends = True
    assert client.wait(job, timeout=300).status is Status.CANCELED
    kinds = [event.kind for event in client.events(job) if event.kind.startswith("cancel")]
    assert kinds == ["cancel", "cancel-unsent", "cancel"]


def test_a_cancel_that_was_interrupted_is_carried_out_by_who_waits(client: Client) -> None:
    (job,) = sleepers(client, 1)
    away = Interrupted(client, job)
    with pytest.raises(KeyboardInterrupt):
        client.cancel_job(job, grace=0)
    away.is_over = True
    assert client.wait(job, timeout=300).status is Status.CANCELED


class Interrupted(OnlyTells):
    """Somebody presses Ctrl-C before the backend has answered a cancel."""

    is_over = False

    def cancel(self, refs: Sequence[Ref], grace: timedelta) -> Mapping[Ref, CancelAnswer]:
        if not self.is_over:
            raise KeyboardInterrupt
        return self._backend.cancel(refs, grace)
