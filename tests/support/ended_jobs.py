"""The end of a test's jobs, whatever became of them."""

from __future__ import annotations

from collections.abc import Iterator

from tao_sdk.client import Client


def end_jobs(client: Client, grace: float = 0, remove: bool = False) -> None:
    """End the jobs that live, after `grace` seconds; remove them all if asked to."""
    for job in client.list_jobs(look=False):
        if not job.status.terminal:
            client.cancel_job(job.id, grace=grace)
        if remove:
            client.remove(job.id)


def ending_jobs(client: Client, grace: float = 0, remove: bool = False) -> Iterator[Client]:
    """The body of a fixture: the client, then the end of its jobs."""
    with client:
        yield client
        end_jobs(client, grace, remove)
