"""Known jobs: what the store knows of jobs, without a look at any backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tao_sdk.client.client import Client


def id_of(client: Client, job: str) -> str:
    """The id of the job that an id, a name, or the start of an id means. Raises JobNotFound,
    UsageError.
    """
    return client.store.resolve(job)


def ids_named(client: Client, name: str) -> list[str]:
    """The ids of the jobs of that name, the newest first; the id itself where it is a job's."""
    return client.store.named(name)


def count_live(client: Client) -> int:
    """How many jobs have not ended, as far as is known."""
    return len(client.store.live())


def last_submitted(client: Client) -> str:
    """The id of the job that this client handed over last; "" where there is none, or it was
    refused.
    """
    job_id = client.engine.last_kept
    return job_id if job_id and client.store.named(job_id) else ""
