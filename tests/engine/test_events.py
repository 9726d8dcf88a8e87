"""Following events: what happens to a job is told until it has ended, or is forgotten."""

from __future__ import annotations

import threading

import pytest

from tao_sdk.client import Client
from tao_sdk.model.job import Job
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
