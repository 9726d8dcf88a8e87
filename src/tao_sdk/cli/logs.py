"""`tao logs`: a job's output, byte for byte."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tao_sdk.cli.command import command, job_or_newest, optional_job_argument
from tao_sdk.cli.detached import Detached
from tao_sdk.cli.silence import SilenceNotes
from tao_sdk.client.views import log_view
from tao_sdk.model.status import Status

ALL = "all"

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client
    from tao_sdk.model.job import Job


class Rank(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  generic since click 8.4 only
    """The number of a rank, or `all`."""

    name = "rank"
    allowed = f"a whole number of 0 or more, or {ALL}"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        return value if value == ALL else click.IntRange(0).convert(value, param, ctx)


@command("logs")
@optional_job_argument
@click.option("--follow", "-f", is_flag=True, help="Go on until the job has ended.")
@click.option(
    "--tail", "-n", type=click.IntRange(0), metavar="N", help="Only the last N lines, of each rank."
)
@click.option(
    "--events",
    is_flag=True,
    help="Keep the lines `@tao {...}` of the program that runs in the job.",
)
@click.option(
    "--stream",
    type=click.Choice(["stdout", "stderr"]),
    help="Only this stream, where the platform keeps them apart.",
)
@click.option(
    "--rank",
    type=Rank(),
    default="all",
    metavar="N|all",
    help="Of this node of a job of several.  [default: all]",
)
def logs(
    client: Client,
    out: Output,
    job: str | None,
    follow: bool,
    tail: int | None,
    events: bool,
    stream: str | None,
    rank: int | str,
) -> None:
    """Print a job's log, unchanged, over all its attempts; without a job, that of the newest.

    It can be read after the job's container is gone, too.

    Of a job of several nodes a line `==> rank 1 <==` stands before what is of another rank than
    before. With --follow, a further attempt that is due meanwhile is started.

    With --json a line is printed for each piece of the log: {"job": ..., "text": ...}.
    """
    found = client.get_job(job_or_newest(client, out, job), look=False)
    one = rank if isinstance(rank, int) else None
    if found.attempt > 1 and tail is None:
        out.note(f"These are the logs of {found.attempt} attempts, one after the other.")
    chunks = client.follow_logs(
        found.id, tail=tail, follow=follow, events=events, stream=stream or "", rank=one
    )
    try:
        if follow and sys.stderr.isatty() and not out.json:
            printed = raw_with_notes(client, out, found.id, chunks)
        else:
            printed = pieces(out, found.id, chunks) if out.json else raw(out, chunks)
    except KeyboardInterrupt:
        raise Detached(
            f"Detached; {found.id} is left as it is.", f"tao logs -f {found.id}"
        ) from None
    if not printed and tail != 0:
        out.note(empty_log(client.get_job(found.id, look=False), stream, one))


def empty_log(job: Job, stream: str | None, rank: int | None) -> str:
    """Say that there is nothing to print. An empty output would look like a log that was not
    found.
    """
    who = job.id if rank is None else f"Rank {rank} of {job.id}"
    where = f" to {stream}" if stream else ""
    if job.status is Status.ERROR:
        return f"{who} has printed nothing{where}. Why it failed: tao why {job.id}"
    if job.status.terminal:
        return f"{who} has printed nothing{where}."
    return f"{who} has printed nothing{where} yet. Follow it: tao logs -f {job.id}"


def raw(out: Output, chunks: Iterable[bytes]) -> bool:
    """Print the log. True if there was any."""
    printed = False
    for chunk in chunks:
        printed = printed or bool(chunk)
        out.bytes(chunk)
    return printed


def raw_with_notes(client: Client, out: Output, job_id: str, chunks: Iterable[bytes]) -> bool:
    """Print the log, and on stderr a note while the job is silent. True if there was any log."""
    notes = SilenceNotes(client, out, job_id)
    with notes.while_following():
        return raw(out, notes.passed_on(chunks))


def pieces(out: Output, job_id: str, chunks: Iterable[bytes]) -> bool:
    """Print the log as JSON lines. True if there was any.

    A character whose bytes come in two chunks stays whole.
    """
    printed = False
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    for chunk in chunks:
        printed = printed or bool(chunk)
        if text := decode(chunk):
            out.json_line(log_view(job_id, text))
    if rest := decode(b"", True):
        out.json_line(log_view(job_id, rest))
    return printed
