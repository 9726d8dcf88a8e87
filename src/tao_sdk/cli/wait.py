"""`tao wait`, `cancel`, `watch`: the ends of jobs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import click

from tao_sdk.cli import exit_codes, show
from tao_sdk.cli.command import (
    Duration,
    command,
    jobs_argument,
    labels_option,
    newest,
    one_or_list,
    refuse_two_choices,
)
from tao_sdk.cli.failure import Detached
from tao_sdk.client.job_end import has_results_folder, pipe_words
from tao_sdk.client.known_jobs import (
    count_live,
    id_of,
    ids_named,
    jobs_labelled,
    live_id,
    looked_at,
)
from tao_sdk.client.typed_values import read_pairs
from tao_sdk.client.views import watch_view
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import TaoError, UsageError
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client
    from tao_sdk.model.job import Job

POLL_SECONDS = 5.0
WAIT_FOR = ("JOB...", "--label NAME=VALUE")
CANCELS = ("JOB...", "--parent JOB", "--label NAME=VALUE")


@command("wait")
@jobs_argument
@labels_option("All jobs with this label, instead of naming them.")
@click.option(
    "--timeout", type=Duration(), help="Give up after this long (exit code 5); the jobs go on."
)
def wait(
    client: Client,
    out: Output,
    jobs: tuple[str, ...],
    labels: tuple[str, ...],
    timeout: timedelta | None,
) -> int:
    """Wait until every job has ended, and show how each did. A further attempt that is due
    meanwhile is started.

    Of several jobs of one name the only live one is meant; if several are live, the exit code is 2,
    and a line names them all.

    The exit code is 1 if any ended in Error, else 6 if any is Canceled.
    """

    reported: set[str] = set()  # ids of jobs whose end was told

    def tell_change(job: Job) -> None:
        if not job.status.terminal:
            out.note(standing(job, out))
        elif job.id not in reported:
            reported.add(job.id)
            out.line(standing(job, out))
            if out.as_lines:
                out.json_line(job.to_json())

    refuse_two_choices("wait", WAIT_FOR, jobs, labels)
    known = [client.get_job(one_to_wait_for(client, out, job)) for job in jobs]
    if labels:
        known = jobs_labelled(client, read_pairs("--label", labels))
    ids = [job.id for job in known]
    for job in known:
        if job.status.terminal:
            tell_change(job)
    try:
        seconds = timeout.total_seconds() if timeout is not None else None
        ended = client.wait_all(ids, seconds, on_change=tell_change)
    except KeyboardInterrupt:
        raise Detached("Detached; the jobs go on.", f"tao wait {' '.join(ids)}") from None
    if not out.as_lines:
        out.object(one_or_list([job.to_json() for job in ended], len(jobs)))
    for job in ended:
        tell_change(job)
    return exit_codes.of_statuses(job.status for job in ended)


def one_to_wait_for(client: Client, out: Output, job: str) -> str:
    """The id of the only live one of several jobs of that name, else of the newest; it says so.

    Raises UsageError where several are live: what follows `tao wait` needs them all.
    """
    named = ids_named(client, job)
    if len(named) < 2:
        return newest(client, out, job)
    live = [each.id for each in looked_at(client, named) if not each.status.terminal]
    if len(live) < 2:
        return live_one(client, out, job)
    what = f"{len(live)} live jobs are named {job!r}."
    raise UsageError(what, "", "To wait for all of them:", f"tao wait {' '.join(live)}")


def standing(job: Job, out: Output) -> str:
    """`digits-7f3k2q9d1x  Running for 0:21  epoch 3/20  loss 0.5`."""
    now = utc_now()
    duration = show.waiting_time(job, now)[len(job.status.value) :]
    head = f"{job.id}  {out.status(job.status.value)}{duration}"
    message = standing_message(job, now)
    return f"{head}  {message}" if message else head


def standing_message(job: Job, now: datetime) -> str:
    """How far it is, what follows, or what its platform says."""
    if job.waits_for_next_attempt:
        return f"attempt {job.attempt + 1} follows"
    message = show.message(job)
    epochs = show.how_far(job, now) if job.status is Status.RUNNING else []
    return "  ".join([job.progress.unit, *epochs, message]).rstrip() if epochs else message


@command("cancel")
@jobs_argument
@click.option(
    "--parent",
    metavar="JOB",
    help=(
        "All live jobs that this one started (parent_job_id of Python's create_job), instead of "
        "naming them."
    ),
)
@labels_option("All live jobs with this label, instead of naming them.")
@click.option(
    "--grace",
    type=Duration(),
    default="10s",
    show_default=True,
    help="How long the command has to end by itself.",
)
def cancel(
    client: Client,
    out: Output,
    jobs: tuple[str, ...],
    parent: str | None,
    labels: tuple[str, ...],
    grace: timedelta,
) -> int:
    """End jobs. Their logs and results are kept. A job that is over already stays what it is.

    A name that several jobs have means the only live one of them. Where several of them are live,
    none of these is ended, and their ids are listed.
    """
    refuse_two_choices("cancel", CANCELS, jobs, parent, labels)
    named = [live_one(client, out, job) for job in dict.fromkeys(jobs)]
    if parent:
        named = [job.id for job in client.live_children(parent)]
    if labels:
        named = live_labelled(client, labels)
    ended = client.cancel_jobs(named, grace.total_seconds())
    errors = [error for error in ended.values() if isinstance(error, TaoError)]
    over = {id_of(client, job): result for job, result in ended.items() if isinstance(result, bool)}
    found = [client.get_job(job) for job in over]
    if found or not errors:
        out.object(one_or_list([job.to_json() for job in found], len(jobs)))
    if parent and not ended:
        out.note(f"No job that {parent} started is live.")
    if labels and not ended:
        out.note("No job with that label is live.")
    for job in found:
        out.line(standing(job, out))
        out.note(left_behind(client, job))
        if words := pipe_words(job):
            out.note(f"  {words}")
        if not over[job.id]:
            out.note(f"{job.id} was told to end and has not been seen to: tao wait {job.id}")
    for error in errors[1:]:
        out.note(f"error: {error}")
    if errors:
        raise errors[0]
    return exit_codes.DONE if all(over.values()) else exit_codes.TIMED_OUT


def live_one(client: Client, out: Output, job: str) -> str:
    """The id of the only live one of several jobs of that name, and it says so; else `job`."""
    named = ids_named(client, job)
    if len(named) < 2:
        return job
    try:
        found = live_id(client, job)
    except UsageError:  # several are live: the others that were named are ended first
        return job
    ended = client.get_job(found, look=False).status.terminal
    which = "none is live; this is the newest" if ended else "the only live one"
    out.note(f"{found}: of {len(named)} jobs named {job}, {which}.")
    return found


def live_labelled(client: Client, labels: Sequence[str]) -> list[str]:
    """The ids of the live jobs with these labels. Raises JobNotFound where none has them."""
    jobs = jobs_labelled(client, read_pairs("--label", labels))
    return [job.id for job in jobs if not job.status.terminal]


def left_behind(client: Client, job: Job) -> str:
    """Where to look for what an ended job has left."""
    results = ""
    if has_results_folder(client, job):
        results = f"results  {show.path(job.results_dir)}  "
    return f"  {results}log  tao logs {job.id}"


def told_to_stop(stop: threading.Event, _signal: int, _frame: FrameType | None) -> None:
    stop.set()


@command("watch")
@click.option("--forever", is_flag=True, help="Stay when no job is live, as a service does.")
def watch(client: Client, out: Output, forever: bool) -> int:
    """Carry live jobs to their end in the foreground: retries, hooks, kept logs. Ends when no job
    is live.
    """
    stop = threading.Event()
    signal.signal(signal.SIGTERM, partial(told_to_stop, stop))
    live = count_live(client)
    jobs = show.plural(live, "live job")
    out.note(f"Watching {jobs}. Ctrl-C stops watching; the jobs go on.")
    try:
        client.watch(stop)
        while forever and not stop.wait(POLL_SECONDS):
            client.watch(stop)
    except KeyboardInterrupt:
        raise Detached("No longer watching; the jobs go on.", "tao watch") from None
    left = count_live(client)
    out.object(watch_view(left))
    come_back = "No longer watching; the jobs go on. Come back: tao watch"
    out.note(come_back if left else "No job is live.")
    if undelivered := client.jobs_with_failed_hooks():
        out.note(
            f"Hooks of {', '.join(undelivered)} have failed and are tried again by "
            "whoever watches later: tao watch"
        )
    return exit_codes.DONE
