"""`tao rm` and `tao gc`: forgetting jobs, and what they left at the backends."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from tao_sdk.cli.command import (
    Duration,
    command,
    jobs_argument,
    labels_option,
    refuse_two_choices,
)
from tao_sdk.client.known_jobs import jobs_labelled
from tao_sdk.client.typed_values import read_pairs
from tao_sdk.client.views import cleaned_view, removed_view
from tao_sdk.model.units import format_duration

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client


REMOVES = ("JOB...", "--label NAME=VALUE")
NOT_RELEASED = "; its platform could not be asked, what it has of the job stays"


@command("rm")
@jobs_argument
@labels_option("All jobs with this label, instead of naming them.")
@click.option(
    "--force",
    is_flag=True,
    help="End those that live, and forget also those whose platform cannot be asked any more.",
)
def rm(
    client: Client, out: Output, jobs: tuple[str, ...], labels: tuple[str, ...], force: bool
) -> None:
    """Delete ended jobs: their rows, logs, and what the platform still has of them. Their results
    stay where they are.
    """
    from tao_sdk.client.cleaning import refuse_live

    refuse_two_choices("rm", REMOVES, jobs, labels)
    wanted = jobs
    if labels:
        wanted = tuple(job.id for job in jobs_labelled(client, read_pairs("--label", labels)))
    named = [client.get_job(job) for job in wanted]
    if not force:
        for job in named:
            refuse_live(job)  # none is forgotten where one still runs
    ids = list(dict.fromkeys(job.id for job in named))
    for job_id in ids:
        released = client.remove(job_id, force=force)
        out.line(f"{job_id}  removed{'' if released else NOT_RELEASED}")
    out.object(removed_view(ids))


@command("gc")
@click.option(
    "--older-than",
    type=Duration(unit=True),
    default="7d",
    show_default=True,
    help="Only jobs that ended this long ago.",
)
@click.option("--dry-run", is_flag=True, help="Only say which.")
def gc(client: Client, out: Output, older_than: timedelta, dry_run: bool) -> None:
    """Remove what ended jobs left at the platforms (containers, staged files). Logs are kept first;
    rows and results stay.
    """
    cleaned = client.gc(older_than=older_than, dry_run=dry_run)
    out.object(cleaned_view(cleaned, dry_run))
    for job in cleaned:
        out.line(f"{job}  {'would be cleaned' if dry_run else 'cleaned'}")
    if not cleaned:
        out.note(f"Nothing is left of {which_jobs(older_than)}.")


def which_jobs(older_than: timedelta) -> str:
    if not older_than:
        return "ended jobs"
    return f"jobs that ended more than {format_duration(older_than)} ago"
