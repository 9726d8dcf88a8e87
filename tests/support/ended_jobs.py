"""The end of a test's jobs, whatever became of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from support.waiting import until
from tao_sdk.client import Client
from tao_sdk.model.errors import Unreachable


def end_jobs(client: Client, grace: float = 0, remove: bool = False) -> None:
    """End the jobs that live, after `grace` seconds; remove them all if asked to."""
    for job in client.list_jobs(look=False):
        if not job.status.terminal:
            until(partial(was_told_to_end, client, job.id, grace))
        if remove:
            client.remove(job.id)


def was_told_to_end(client: Client, job_id: str, grace: float) -> bool:
    """False where its place did not answer: one that was silent is not asked again at once."""
    try:
        client.cancel_job(job_id, grace=grace)
    except Unreachable:
        return False
    return True


def ending_jobs(client: Client, grace: float = 0, remove: bool = False) -> Iterator[Client]:
    """The body of a fixture: the client, then the end of its jobs."""
    with client:
        yield client
        end_jobs(client, grace, remove)
