"""`tao retry`: a further attempt of a job that has ended, or a new job like it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tao_sdk.cli.command import command, job_argument
from tao_sdk.cli.submit import detached, told, watched

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client


@command("retry", watches=True)
@job_argument
@click.option(
    "--anew", is_flag=True, help="Run the same as a new job, from the beginning; the old one stays."
)
@click.option("--detach", "-d", is_flag=True, help="Start it and return at once.")
def retry(client: Client, out: Output, job: str, anew: bool, detach: bool) -> int:
    """Try a job again that ended in Error or was canceled, and watch it: its next attempt, from its
    last checkpoint.

    It starts at once and is not counted towards the job's retries. Secrets are taken from the
    environment of now.
    """
    again = told(out, client.submit_again(job)) if anew else client.retry_job(job)
    return detached(out, again) if detach else watched(client, out, again)
