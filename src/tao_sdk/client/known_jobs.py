"""Known jobs: what the store knows of jobs, without a look at any backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tao_sdk.model.errors import JobNotFound

if TYPE_CHECKING:
    from tao_sdk.client.client import Client
    from tao_sdk.model.job import Job


MOST_LABELS = 10  # that an error names
LIST_BY_LABEL = "List jobs by a label: tao ls --label NAME=VALUE"


def id_of(client: Client, job: str) -> str:
    """The id of the job that an id, a name, or the start of an id means. Raises JobNotFound,
    UsageError.
    """
    return client.store.resolve(job)


def ids_named(client: Client, name: str) -> list[str]:
    """The ids of the jobs of that name, the newest first; the id itself where it is a job's."""
    return client.store.named(name)


def jobs_labelled(client: Client, labels: Mapping[str, str]) -> list[Job]:
    """All jobs with these labels, the newest first. Raises JobNotFound where there is none."""
    jobs = client.list_jobs(labels=labels, look=False)
    if not jobs:
        pairs = " and ".join(f"{name}={value}" for name, value in labels.items())
        raise JobNotFound(f"No job has the label {pairs}.", known_labels(client), LIST_BY_LABEL)
    return jobs


def known_labels(client: Client) -> str:
    """The labels that jobs have, as a sentence; of many the first."""
    jobs = client.list_jobs(look=False)
    known = sorted({f"{name}={value}" for job in jobs for name, value in job.labels.items()})
    if not known:
        return "No job has a label."
    more = len(known) - MOST_LABELS
    rest = f" and {more} more" if more > 0 else ""
    return f"Jobs have: {', '.join(known[:MOST_LABELS])}{rest}."


def count_live(client: Client) -> int:
    """How many jobs have not ended, as far as is known."""
    return len(client.store.live())


def last_submitted(client: Client) -> str:
    """The id of the job that this client handed over last; "" where there is none, or it was
    refused.
    """
    job_id = client.engine.last_kept
    return job_id if job_id and client.store.named(job_id) else ""
