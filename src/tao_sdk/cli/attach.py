"""`tao attach`: the screen of `tao run` again, for a job that was handed over before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tao_sdk.cli.command import command, job_or_newest, optional_job_argument
from tao_sdk.cli.submit import watched

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client


@command("attach", watches=True)
@optional_job_argument
def attach(client: Client, out: Output, job: str | None) -> int:
    """Show a running job as `tao run` does until it has ended; of an ended one, how it ended.

    Without a job, the newest.

    Ctrl-C leaves the job running. The exit code is that of `tao run`.
    """
    found = client.get_job(job_or_newest(client, out, job))
    if not (out.screen or found.status.terminal):
        out.note(
            f"All that it told so far, then what is new. New alone: tao logs -f -n 0 {found.id}"
        )
    return watched(client, out, found)
