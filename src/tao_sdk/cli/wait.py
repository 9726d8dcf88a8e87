"""`tao wait`, `cancel`, `watch`: the ends of jobs."""

from __future__ import annotations

import _thread
import signal
import sys
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
from tao_sdk.cli.detached import Detached
from tao_sdk.cli.results_text import failed_end_lines
from tao_sdk.client.job_end import has_results_folder
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
from tao_sdk.model.checkpoints import is_crash
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import TaoError, UsageError
from tao_sdk.model.status import Status
from tao_sdk.model.units import format_clock

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client
    from tao_sdk.model.job import Job

TRIAL_SECONDS = 0.5  # between two looks for the next trial of a search
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

    The exit code is 0 if all are Complete, 1 if any ended in Error, else 6 if any is Canceled, and
    5 at the --timeout. All codes: tao --help
    """
    refuse_two_choices("wait", WAIT_FOR, jobs, labels)
    known = jobs_to_wait_for(client, out, jobs, labels)
    ids = [job.id for job in known]
    changes = ChangeLines(client, out)
    for job in known:
        if job.status.terminal:
            changes.tell_end(job)
    seconds = timeout.total_seconds() if timeout is not None else None
    try:
        ended = client.wait_all(ids, seconds, on_change=changes.tell_change)
    except KeyboardInterrupt:
        raise Detached("Detached; the jobs go on.", f"tao wait {' '.join(ids)}") from None
    if not out.as_lines:
        out.object(one_or_list([job.to_json() for job in ended], len(jobs)))
    for job in ended:
        changes.tell_change(job)
    return exit_codes.of_statuses(job.status for job in ended)


class ChangeLines:
    """Prints a note for each change of a live job, and one line for its end."""

    def __init__(self, client: Client, out: Output) -> None:
        self.client, self.out = client, out
        self.reported: set[str] = set()  # ids of jobs whose end was told

    def tell_change(self, job: Job) -> None:
        if job.status.terminal:
            self.tell_end(job)
        else:
            self.out.note(standing_line(job, self.out))

    def tell_end(self, job: Job) -> None:
        if job.id in self.reported:
            return
        self.reported.add(job.id)
        self.out.line(standing_line(job, self.out))
        if self.out.as_lines:
            self.out.json_line(job.to_json())
        for note in self.client.notes(job.id):
            self.out.note(f"  {note}")


def jobs_to_wait_for(
    client: Client, out: Output, jobs: Sequence[str], labels: Sequence[str]
) -> list[Job]:
    """The named jobs, or the jobs with the labels."""
    if labels:
        return jobs_labelled(client, read_pairs("--label", labels))
    return [client.get_job(one_to_wait_for(client, out, job), look=False) for job in jobs]


def one_to_wait_for(client: Client, out: Output, job: str) -> str:
    """The id of the only live job of that name, else of the newest, with a note.

    Raises UsageError if several are live: the command after `tao wait` needs them all.
    """
    same_name = ids_named(client, job)
    if len(same_name) < 2:
        return newest(client, out, job)
    live = [each.id for each in looked_at(client, same_name) if not each.status.terminal]
    if len(live) < 2:
        return live_one(client, out, job)
    what = f"{len(live)} live jobs are named {job!r}."
    raise UsageError(what, "", "To wait for all of them:", f"tao wait {' '.join(live)}")


def standing_line(job: Job, out: Output) -> str:
    """`digits-7f3k2q9d1x  Running for 0:21  epoch 3/20  loss 0.5`."""
    now = utc_now()
    duration = show.time_in_status(job, now)
    head = f"{job.id}  {out.status(job.status.value)}{duration}"
    message = standing_message(job, now)
    if not message:
        return head
    return f"{head}  {message}"


def standing_message(job: Job, now: datetime) -> str:
    """The job's progress, the attempt that follows, or the platform's message."""
    if job.waits_for_next_attempt:
        return f"attempt {job.attempt + 1} follows"
    message = show.message(job)
    epochs = show.how_far(job, now) if job.status is Status.RUNNING else []
    if not epochs:
        return message
    return "  ".join([job.progress.unit, *epochs, message]).rstrip()


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
    ids = jobs_to_cancel(client, out, jobs, parent, labels)
    if sys.stderr.isatty() and (known := [job for job in ids if is_known(client, job)]):
        allowed = format_clock(grace.total_seconds())
        out.note(f"Telling {show.plural(len(known), 'job')} to end, within {allowed} (--grace).")
    results = client.cancel_jobs(ids, grace.total_seconds())
    errors = [error for error in results.values() if isinstance(error, TaoError)]
    over = {id_of(client, job): ended for job, ended in results.items() if isinstance(ended, bool)}
    canceled = [client.get_job(job) for job in over]
    if canceled or not errors:
        out.object(one_or_list([job.to_json() for job in canceled], len(jobs)))
    if not results:
        tell_none_live(out, parent, labels)
    for job in canceled:
        tell_canceled(client, out, job, over[job.id])
        if len(canceled) == 1 or is_crash(job.exit_code):  # for many jobs, no log is read in vain
            tell_failed_end(client, out, job)
    for error in errors[1:]:
        out.note(f"error: {error}")
    if errors:
        raise errors[0]
    if all(over.values()):
        return exit_codes.DONE
    return exit_codes.TIMED_OUT


def jobs_to_cancel(
    client: Client, out: Output, jobs: Sequence[str], parent: str | None, labels: Sequence[str]
) -> list[str]:
    """The ids of the named jobs, else of the live ones of a parent or with the labels."""
    if parent:
        return [job.id for job in client.live_children(parent)]
    if labels:
        return live_labelled(client, labels)
    return [live_one(client, out, job) for job in dict.fromkeys(jobs)]


def is_known(client: Client, job: str) -> bool:
    try:
        client.get_job(job, look=False)
    except TaoError:
        return False
    return True


def tell_none_live(out: Output, parent: str | None, labels: Sequence[str]) -> None:
    if parent:
        out.note(f"No job that {parent} started is live.")
    if labels:
        out.note("No job with that label is live.")


def tell_canceled(client: Client, out: Output, job: Job, is_over: bool) -> None:
    """Print how the job ended, and where to look for what it left."""
    out.line(standing_line(job, out))
    out.note(left_behind(client, job))
    for note in client.notes(job.id):
        out.note(f"  {note}")
    if not is_over:
        out.note(f"{job.id} was told to end and has not been seen to: tao wait {job.id}")


def tell_failed_end(client: Client, out: Output, job: Job) -> None:
    """Say how a canceled program failed while it was ending."""
    if failure := client.failure_while_ending(job.id):
        for line in failed_end_lines(failure, client.results(job.id)):
            out.note(f"  {line}")


def live_one(client: Client, out: Output, job: str) -> str:
    """The id of the only live job of that name, with a note; else `job`."""
    same_name = ids_named(client, job)
    if len(same_name) < 2:
        return job
    try:
        job_id = live_id(client, job)
    except UsageError:  # several are live: the others that were named are ended first
        return job
    which = "the only live one"
    if client.get_job(job_id, look=False).status.terminal:
        which = "none is live; this is the newest"
    out.note(f"{job_id}: of {len(same_name)} jobs named {job}, {which}.")
    return job_id


def live_labelled(client: Client, labels: Sequence[str]) -> list[str]:
    """The ids of the live jobs with these labels. Raises JobNotFound if none has them."""
    jobs = jobs_labelled(client, read_pairs("--label", labels))
    return [job.id for job in jobs if not job.status.terminal]


def left_behind(client: Client, job: Job) -> str:
    """The places to look for what an ended job has left."""
    results = ""
    if has_results_folder(client, job):
        results = f"results  {show.path(job.results_dir)}  "
    return f"  {results}log  tao logs {job.id}"


def stop_watching(stop: threading.Event, _signal: int, _frame: FrameType | None) -> None:
    """Set the event from a new thread: the thread that the signal interrupted may hold the event's
    lock.
    """
    _thread.start_new_thread(stop.set, ())


@command("watch")
@click.option("--forever", is_flag=True, help="Stay when no job is live, as a service does.")
def watch(client: Client, out: Output, forever: bool) -> int:
    """Watch live jobs to their end in the foreground: retries, hooks, kept logs; and carry on the
    searches that nobody drives. Ends when no job is live, no search is left, and nothing is rented.
    """
    from tao_sdk.cli.automl import SearchDrivers

    stop = threading.Event()
    signal.signal(signal.SIGTERM, partial(stop_watching, stop))
    drivers = SearchDrivers(client, out, stop)
    live = count_live(client)
    if live or forever:
        tell_what_watching_does(out, live)
    try:
        drivers.begin()
        client.watch(stop)
        while (forever or drivers.is_busy) and not stop.is_set():
            stop.wait(TRIAL_SECONDS if drivers.is_busy else POLL_SECONDS)
            drivers.begin()
            client.watch(stop)
    except KeyboardInterrupt:
        drivers.end()
        raise Detached("No longer watching; the jobs go on.", "tao watch") from None
    drivers.end()
    tell_live_jobs(out, count_live(client))
    tell_failed_hooks(out, client.jobs_with_failed_hooks())
    return exit_codes.DONE


def tell_what_watching_does(out: Output, live: int) -> None:
    out.note(f"Watching {show.plural(live, 'live job')}. Ctrl-C stops watching; the jobs go on.")
    out.note("It starts retries and hooks, and shows no progress. To see a job: tao attach JOB")


def tell_failed_hooks(out: Output, ids: Sequence[str]) -> None:
    """Name the jobs with hooks that have failed, a line each."""
    if not ids:
        return
    out.note("Hooks have failed and are tried again by whoever watches later: tao watch. Jobs:")
    for line in show.first_lines(ids):
        out.note(f"  {line}")


def tell_live_jobs(out: Output, live: int) -> None:
    """Print how many jobs are still live when `tao watch` ends."""
    out.object(watch_view(live))
    if live:
        out.note("No longer watching; the jobs go on. Come back: tao watch")
    else:
        out.note("No job is live.")
