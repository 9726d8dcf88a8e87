"""Many jobs at once: one cancel ends them all, and nobody is asked about those that do not change."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from support.machine import until
from support.places import Place, until_it_runs
from tao_sdk.backends.contract import Backend, CancelAnswer
from tao_sdk.backends.news import NoNews
from tao_sdk.client import Client
from tao_sdk.engine.submit import Submission
from tao_sdk.model.errors import JobNotFound, Unreachable, WaitTimeout
from tao_sdk.model.job import Job
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Ref
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


def submit(client: Client, place: Place, command: str) -> Job:
    return client.submit(JobSpec(command=command, gpu_count=0), place.platform).job


def place_of(client: Client, job: Job) -> tuple[Backend, Ref]:
    ref = client.engine.ref_of(job)
    assert ref is not None
    return client.engine.backend_of(job), ref


def test_one_cancel_ends_several_attempts_and_answers_for_each(
    client: Client, place: Place
) -> None:
    jobs = [submit(client, place, "sleep 300") for _ in range(3)]
    for job in jobs:
        until_it_runs(client, job)
    backend, _ = place_of(client, jobs[0])
    refs = [place_of(client, job)[1] for job in jobs]
    answers = backend.cancel(refs, timedelta(seconds=10))
    assert list(answers) == refs
    assert [phase_of(answer) for answer in answers.values()] == [Phase.CANCELED] * 3


def phase_of(answer: CancelAnswer) -> Phase:
    assert isinstance(answer, Observation), answer
    return answer.phase


def test_an_attempt_that_lives_elsewhere_keeps_no_other_from_its_end(
    client: Client, place: Place
) -> None:
    job = submit(client, place, "sleep 300")
    until_it_runs(client, job)
    backend, ref = place_of(client, job)
    stranger = replace(ref, endpoint="another-one")
    answers = backend.cancel([stranger, ref], timedelta(seconds=10))
    assert isinstance(answers[stranger], Unreachable)
    assert phase_of(answers[ref]) is Phase.CANCELED


def test_nothing_to_cancel_is_no_error(client: Client, place: Place) -> None:
    backend, _ = place_of(client, submit(client, place, "true"))
    assert backend.cancel([], timedelta(0)) == {}


def test_many_jobs_submitted_in_one_call_run_once_each(client: Client, place: Place) -> None:
    specs = [JobSpec(command=f"echo part {part}", gpu_count=0) for part in range(5)]
    answers = client.submit_all(specs, place.platform)
    jobs = [answer.job for answer in answers if isinstance(answer, Submission)]
    client.wait_all([job.id for job in jobs], timeout=300)
    assert [client.get_job_logs(job.id) for job in jobs] == [f"part {n}\n" for n in range(5)]
    assert len(client.list_jobs(look=False)) == 5


class CountsCancels:
    """The backend under test, with how many attempts each cancel was for."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.cancels: list[int] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    def cancel(self, refs: Sequence[Ref], grace: timedelta) -> Mapping[Ref, CancelAnswer]:
        self.cancels.append(len(refs))
        return self._backend.cancel(refs, grace)


def test_canceling_several_jobs_asks_the_backend_once(client: Client, place: Place) -> None:
    jobs = [submit(client, place, "sleep 300") for _ in range(3)]
    backend, ref = place_of(client, jobs[0])
    counting = CountsCancels(backend)
    client.engine._backends[place.platform, ref.endpoint] = counting  # pyright: ignore
    answers = client.cancel_jobs([*(job.id for job in jobs), "nothing-0000000000"], grace=5)
    assert counting.cancels == [3]
    assert [answers[job.id] for job in jobs] == [True] * 3
    assert isinstance(answers["nothing-0000000000"], JobNotFound)
    statuses = [client.get_job(job.id, look=False).status for job in jobs]
    assert statuses == [Status.CANCELED] * 3


def test_news_tell_of_an_end(client: Client, place: Place) -> None:
    job = submit(client, place, "sleep 300")
    until_it_runs(client, job)
    backend, ref = place_of(client, job)
    with closing(backend.news()) as news:
        assert list(news.changed([ref], 0)) == [ref]  # nobody has told of it before
        backend.cancel([ref], timedelta(0))
        until(lambda: ref in news.changed([ref], 1.0))


def test_where_a_backend_can_tell_nothing_is_news_while_nothing_happens(
    client: Client, place: Place
) -> None:
    jobs = [submit(client, place, "sleep 300") for _ in range(2)]
    for job in jobs:
        until_it_runs(client, job)
    backend, _ = place_of(client, jobs[0])
    refs = [place_of(client, job)[1] for job in jobs]
    with closing(backend.news()) as news:
        if isinstance(news, NoNews):
            assert list(news.changed(refs, 0)) == refs
            return
        until(lambda: not news.changed(refs, 3.0))  # the start of both has been told
        backend.cancel(refs[:1], timedelta(0))
        until(lambda: refs[0] in news.changed(refs, 1.0))
        until(lambda: not news.changed(refs, 3.0))


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_a_log_that_has_grown_is_news(client: Client, place: Place) -> None:
    job = submit(client, place, "while sleep 0.2; do echo more; done")
    until_it_runs(client, job)
    backend, ref = place_of(client, job)
    with closing(backend.news()) as news:
        news.grown([ref])
        until(lambda: ref in news.grown([ref]))


def test_who_waits_asks_nothing_while_nothing_happens(client: Client, place: Place) -> None:
    job = submit(client, place, "sleep 300")
    until_it_runs(client, job)
    backend, ref = place_of(client, job)
    with closing(backend.news()) as news:
        if isinstance(news, NoNews):
            return
    asked = CountsLooks(backend)
    client.engine._backends[place.platform, ref.endpoint] = asked  # pyright: ignore
    with pytest.raises(WaitTimeout):
        client.wait(job.id, timeout=2)
    few = asked.looks
    with pytest.raises(WaitTimeout):
        client.wait(job.id, timeout=6)
    assert asked.looks <= 2 * few


class CountsLooks:
    def __init__(self, backend: Backend) -> None:
        self._backend, self.looks = backend, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    def observe(self, refs: Sequence[Ref]) -> object:
        self.looks += 1
        return self._backend.observe(refs)


def test_a_wait_hears_of_an_end_that_somebody_else_has_brought_about(
    client: Client, place: Place
) -> None:
    jobs = [submit(client, place, "sleep 300") for _ in range(2)]
    for job in jobs:
        until_it_runs(client, job)
    refs = [place_of(client, job)[1] for job in jobs]
    backend, _ = place_of(client, jobs[0])
    ending = threading.Timer(1.0, backend.cancel, (refs, timedelta(0)))
    ending.start()
    ended = client.wait_all([job.id for job in jobs], timeout=300)
    assert all(job.status.terminal for job in ended)
    ending.join()
