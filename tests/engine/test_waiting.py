"""Who waits for jobs of several endpoints hears of a change at any of them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.waiting import until
from tao_sdk.backends.local.backend import LocalBackend
from tao_sdk.client import Client
from tao_sdk.engine.listening import Listener, first_heard
from tao_sdk.model.job import Job
from tao_sdk.model.plan import Ref
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


@pytest.fixture(autouse=True)
def nothing_goes_on(client: Client) -> Iterator[None]:
    yield
    client.cancel_jobs([job.id for job in client.store.live()], grace=0)


def submit_at(client: Client, name: str, folder: Path) -> Job:
    """A job that runs at a local endpoint of that name, where looking is polite once in a while."""
    backend = LocalBackend(client.settings, folder / name)
    backend.endpoint = name
    backend.capabilities = replace(backend.capabilities, poll_seconds=600.0)
    client.engine.places._by_name["local"] = backend  # pyright: ignore
    client.engine._backends["local", name] = backend  # pyright: ignore
    job = client.submit(JobSpec(command="sleep 300", gpu_count=0), "local").job
    return until(lambda: running(client.get_job(job.id)))


def running(job: Job) -> Job | None:
    return job if job.status is Status.RUNNING else None


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_a_change_at_either_of_two_endpoints_wakes_who_waits_for_jobs_of_both(
    client: Client, tmp_path: Path, which: int
) -> None:
    jobs = [submit_at(client, name, tmp_path) for name in ("lab", "attic")]
    assert len({job.endpoint for job in jobs}) == 2
    ref = client.engine.ref_of(jobs[which])
    ending = client.engine.backend_of(jobs[which])
    threading.Timer(1.0, ending.cancel, ([ref], timedelta(0))).start()
    seen = client.follow_jobs([job.id for job in jobs], timeout=300)
    statuses = next([job.status for job in now] for now in seen if now[which].status.terminal)
    assert statuses[1 - which] is Status.RUNNING


class News:
    """News of one endpoint, which come when `event` is set. Notes if two threads ask at once."""

    tells = True

    def __init__(self) -> None:
        self.event, self.asked_twice = threading.Event(), False
        self._asked = threading.Lock()

    def changed(self, refs: Sequence[Ref], seconds: float) -> Collection[Any]:
        if not self._asked.acquire(blocking=False):
            self.asked_twice = True
            return []
        try:
            return ["news"] if self.event.wait(seconds) else []
        finally:
            self._asked.release()

    def grown(self, refs: Sequence[Ref]) -> Collection[Ref]:
        return []

    def close(self) -> None:
        return


def listeners_to(client: Client, number: int) -> list[tuple[Listener, News]]:
    made = [(Listener(client.engine, ("local", f"place {n}")), News()) for n in range(number)]
    for listener, news in made:
        listener._news = news  # pyright: ignore
    return made


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 30])
def test_however_many_endpoints_there_are_the_one_with_news_is_heard(
    client: Client, number: int
) -> None:
    made = listeners_to(client, number)
    last_listener, last_news = made[-1]
    threading.Timer(0.3, last_news.event.set).start()
    before = threading.active_count()
    assert first_heard([listener for listener, _ in made], 80.0) == [last_listener]
    assert threading.active_count() <= before
    assert not any(news.asked_twice for _, news in made)


def test_without_news_listening_ends_in_time(client: Client) -> None:
    made = listeners_to(client, 3)
    assert first_heard([listener for listener, _ in made], 0.3) == []
    assert first_heard([listener for listener, _ in made], 0.0) == []
