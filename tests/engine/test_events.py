"""Following events: what happens to a job is told until it has ended, or is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from support.waiting import LIMIT_SECONDS, until
from tao_sdk.client import Client
from tao_sdk.model.job import Event, Job
from tao_sdk.model.spec import JobSpec


def run(client: Client, command: str) -> str:
    return client.submit(JobSpec(command=command, gpu_count=0), "local").job.id


@pytest.mark.slow
def test_following_a_job_that_is_forgotten_meanwhile_ends(client: Client) -> None:
    job = run(client, "sleep 300")
    following = client.events(job, follow=True)
    assert next(following).job_id == job
    client.cancel_job(job, grace=0)
    client.remove(job)
    assert {event.job_id for event in following} <= {job}


@pytest.mark.slow
def test_following_all_jobs_goes_on_when_one_is_forgotten_between_two_looks(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, stays = run(client, "sleep 300"), run(client, "sleep 1")
    client.cancel_job(gone, grace=0)
    removed, live = client.store.get(gone), client.store.live
    client.remove(gone)
    told = threading.Event()

    def as_it_was(platform: str | None = None) -> list[Job]:
        return live(platform) if told.is_set() else [told.set() or removed, *live(platform)]

    monkeypatch.setattr(client.store, "live", as_it_was)
    statuses = (event.status for event in client.events(follow=True) if event.job_id == stays)
    assert any(status is not None and status.terminal for status in statuses)
    assert told.is_set()


def wait_for_end(following: Iterator[Event], job: str) -> None:
    next(event for event in following if event.job_id == job and has_ended(event))


def has_ended(event: Event) -> bool:
    return event.status is not None and event.status.terminal


@contextmanager
def gives_up(client: Client, job: str) -> Generator[None]:
    """Cancels a job that waits too long, so that whoever follows it sees an end."""
    timer = threading.Timer(LIMIT_SECONDS, client.cancel_job, [job])
    timer.start()
    yield
    timer.cancel()


def nobody_carries() -> bool:
    return "tao-carry" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.slow
def test_whoever_follows_all_jobs_carries_on_each_that_waits_for_its_retry(client: Client) -> None:
    """Also one that comes after a time without any live job, in which the watcher has ended."""
    lost = JobSpec(command="kill -9 $PPID; sleep 0.1", gpu_count=0, retries=1)
    first = client.submit(lost, "local").job.id
    following = client.events(follow=True)
    wait_for_end(following, first)
    until(nobody_carries)
    second = client.submit(lost, "local").job.id
    with gives_up(client, second):
        wait_for_end(following, second)
    assert [client.store.get(job).attempt for job in (first, second)] == [2, 2]


def test_who_follows_from_the_newest_event_gets_only_those_to_come(client: Client) -> None:
    assert client.newest_event_number() == 0
    client.wait(run(client, "true"))
    newest = client.newest_event_number()
    assert newest == max(event.seq for event in client.events())
    later = run(client, "true")
    assert {event.job_id for event in client.events(since=newest)} == {later}
