"""Known jobs: which jobs of the store a word or a label means.

No backend is asked, except where the statuses of several jobs of one name decide which is meant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from tao_sdk.model.errors import JobNotFound, UsageError
from tao_sdk.model.status import TERMINAL, Status

if TYPE_CHECKING:
    from tao_sdk.client.client import Client
    from tao_sdk.model.job import Job


MOST_LABELS = 10  # in an error
MOST_IDS = 5  # in an error
LIVE = frozenset(Status) - TERMINAL
FAILED = frozenset({Status.ERROR, Status.CANCELED})  # a retry can begin another attempt of these
TAKE_MANY = frozenset({"tao cancel"})  # commands that may name several jobs
LIST_BY_LABEL = "List jobs by a label: tao ls --label NAME=VALUE"


def id_of(client: Client, job: str) -> str:
    """The id of the job that an id, a name, or the start of an id means. Raises JobNotFound,
    UsageError.
    """
    return client.store.resolve(job)


def ids_named(client: Client, name: str) -> list[str]:
    """The ids of the jobs of that name, the newest first. If the name is a job's id, just that
    id.
    """
    return client.store.named(name)


def live_id(client: Client, job: str) -> str:
    """The id of the job to end. If several jobs have the name: the only live one, or the newest if
    none is live. Raises JobNotFound, UsageError.
    """
    return only_id(client, job, LIVE, "live", "tao cancel")


def failed_id(client: Client, job: str) -> str:
    """The id of the job to retry. If several jobs have the name: the only one that failed or was
    canceled, or the newest if none did. Raises JobNotFound, UsageError.
    """
    return only_id(client, job, FAILED, "failed or canceled", "tao retry")


def only_id(
    client: Client, job: str, wanted: Collection[Status], adjective: str, command: str
) -> str:
    """The id that an id, a name, or the start of an id means. If several jobs have the name: the
    only one with a `wanted` status, or the newest if none has one.

    Raises JobNotFound, and UsageError if several have one. It names them, and the `command` for the
    newest, or for all of them if it takes many.
    """
    named = ids_named(client, job)
    if len(named) < 2:
        return id_of(client, job)
    fitting = [each.id for each in looked_at(client, named) if each.status in wanted]
    if len(fitting) > 1:
        raise UsageError(
            f"{len(fitting)} {adjective} jobs are named {job!r}.",
            f"They are {first_ids(fitting)}.",
            words_before_newest(fitting, command),
            f"{command} {fitting[0]}",
        )
    return fitting[0] if fitting else named[0]


def words_before_newest(ids: Sequence[str], command: str) -> str:
    """The words before the command for the newest job. They include the command for all of the jobs
    if it takes many and they are few.
    """
    newest = "The newest of them:"
    if command not in TAKE_MANY or len(ids) > MOST_IDS:
        return newest
    return f"All of them: {command} {' '.join(ids)}. {newest}"


def looked_at(client: Client, ids: Sequence[str]) -> list[Job]:
    """The jobs of these ids, in their order; the live ones as they are now."""
    from tao_sdk.engine.look import look

    jobs = [client.store.get(job_id) for job_id in ids]
    return [seen.job for seen in look(client.engine, jobs)]


def first_ids(ids: Sequence[str]) -> str:
    """`a, b, ...`: the first MOST_IDS of them."""
    rest = ["..."] if len(ids) > MOST_IDS else []
    return ", ".join([*ids[:MOST_IDS], *rest])


def jobs_labelled(client: Client, labels: Mapping[str, str]) -> list[Job]:
    """All jobs with these labels, the newest first. Raises JobNotFound where there is none."""
    jobs = client.list_jobs(labels=labels, look=False)
    if not jobs:
        what = f"No job has the {label_words(labels)}."
        raise JobNotFound(what, known_labels(client), LIST_BY_LABEL)
    return jobs


def label_words(labels: Mapping[str, str]) -> str:
    """`label sweep=a`, `labels sweep=a and lr=1`."""
    noun = "label" if len(labels) == 1 else "labels"
    pairs = " and ".join(f"{name}={value}" for name, value in labels.items())
    return f"{noun} {pairs}"


def known_labels(client: Client) -> str:
    """The labels that jobs have, as a sentence. If they are many, the first ones."""
    jobs = client.list_jobs(look=False)
    known = sorted({f"{name}={value}" for job in jobs for name, value in job.labels.items()})
    if not known:
        return "No job has a label."
    more = len(known) - MOST_LABELS
    rest = f" and {more} more" if more > 0 else ""
    return f"Jobs have: {', '.join(known[:MOST_LABELS])}{rest}."


def count_live(client: Client) -> int:
    """The number of jobs that have not ended, as far as the store knows."""
    return len(client.store.live())


def last_submitted(client: Client) -> str:
    """The id of the job that this client handed over last; "" if there is none, or it was
    refused.
    """
    job_id = client.engine.last_written_job
    return job_id if job_id and client.store.named(job_id) else ""
