"""`tao retry`: a further attempt of a job that has ended, or a new job like it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tao_sdk.cli import show
from tao_sdk.cli.command import command, job_argument
from tao_sdk.cli.submit import detached, told, watched
from tao_sdk.client.known_jobs import FAILED, failed_id, ids_named
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client
    from tao_sdk.model.job import Job

NAMED = 3  # files that a note names


@command("retry", watches=True)
@job_argument
@click.option(
    "--anew", is_flag=True, help="Run the same as a new job, from the beginning; the old one stays."
)
@click.option("--detach", "-d", is_flag=True, help="Start it and return at once.")
def retry(client: Client, out: Output, job: str, anew: bool, detach: bool) -> int:
    """Try a job again that ended in Error or was canceled, and watch it: its next attempt.

    Where the spec has a resume key, it goes on from the newest whole checkpoint; else it begins
    anew.

    It starts at once and is not counted towards the job's retries. Secrets are taken from the
    environment of now.

    The exit code is 0 if the job is Complete, 1 if it ended in Error, 6 if it is Canceled. All
    codes: tao --help
    """
    job = job if anew else failed_one(client, out, job)
    first = client.get_job(job, look=False)
    told_before = 0 if anew else max((event.seq for event in client.events(first.id)), default=0)
    again = told(out, client.submit_again(job)) if anew else client.retry_job(job)
    anew_lines = [] if anew else not_resumed(first)
    for line in (*anew_lines, *sent_again(first), *read_again(first)):
        out.note(line)
    if detach:
        return detached(out, again)
    return watched(client, out, again, told_before)


def failed_one(client: Client, out: Output, job: str) -> str:
    """The id of the only failed or canceled job of that name, with a note; else `job`."""
    named = ids_named(client, job)
    if len(named) < 2:
        return job
    found = failed_id(client, job)
    failed = client.get_job(found, look=False).status in FAILED
    which = "the only one that failed or was canceled" if failed else "the newest; none failed"
    out.note(f"{found}: of {len(named)} jobs named {job}, {which}.")
    return found


def not_resumed(job: Job) -> list[str]:
    """Say that the next attempt does not go on from a checkpoint, and what that means for
    results.
    """
    from tao_sdk.client.results import begins_anew

    will_start = job.status in (Status.ERROR, Status.CANCELED)
    if not will_start or not begins_anew(job):
        return []
    return [
        "It begins anew, in the same results folder: files of the same name are written over. "
        f"{why_anew(job)}"
    ]


def why_anew(job: Job) -> str:
    """The reason why no checkpoint is given to the command."""
    if "specs" in job.spec or "args" in job.spec:
        return (
            "No resume_key is set, and no empty resume_training_checkpoint_path is there to fill."
        )
    return "A job without specs or args has no resume key."


def sent_again(job: Job) -> list[str]:
    """Say that the job gets its files as they were sent at first: they may have changed here
    since.
    """
    names: list[str] = list(job.spec.get("files", ()))
    if not names:
        return []
    return [f"It runs {first_names(names)} as sent at first. To send what is here now: tao run"]


def read_again(job: Job) -> list[str]:
    """Say that the job reads its inputs as they are by now."""
    from tao_sdk.client.results import input_names

    names = input_names(job)
    if not names:
        return []
    return [f"It reads {first_names(names)} again, as it is now."]


def first_names(names: Sequence[str]) -> str:
    """`a, b, c and 2 more`."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(map(show.one_line, names[:NAMED])) + more
