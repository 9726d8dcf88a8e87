"""`tao ls`, `status`, `events`, `why`: looking at jobs without changing anything."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tao_sdk.cli import exit_codes, show
from tao_sdk.cli.command import (
    JobId,
    StatusName,
    command,
    job_or_newest,
    newest,
    one_or_list,
    optional_job_argument,
    platform_option,
)
from tao_sdk.cli.detached import Detached
from tao_sdk.cli.output import cut
from tao_sdk.client.typed_values import read_pairs
from tao_sdk.client.views import epoch_told_at, why_view
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import JobNotFound, PathNotFound, Unreachable
from tao_sdk.model.price import hourly_words
from tao_sdk.model.ranking import FIXED_ORDERS, sorting_setting, swept_settings
from tao_sdk.model.reasons import Reason
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client
    from tao_sdk.model.activity import Activity
    from tao_sdk.model.job import Event, Job
    from tao_sdk.model.progress import Progress

MANY = 50
LAST_WORDS = 3  # lines of a running job's log
LAST_BYTES = 8192  # bytes of the last lines: a progress bar can be one long line


@command("ls")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=StatusName(),
    metavar="|".join(StatusName.NAMES),
    help="Only jobs of this status; may be given several times.",
)
@platform_option(help="Only jobs of this platform.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only jobs with this label; may be given several times.",
)
@click.option(
    "--parent",
    metavar="JOB",
    help="Only jobs that this one started (parent_job_id of Python's create_job).",
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    metavar="N",
    help=f"At most N, 0 for all. Default: {MANY}, with --json all.",
)
@click.option(
    "--sort",
    default="created",
    show_default=True,
    metavar="ORDER",
    help=(
        "created, name, status, a metric (the best first), or a setting or label (the smallest "
        "first); jobs without it last."
    ),
)
@click.option("--full", is_flag=True, help="With --json: also the metrics of every epoch.")
def ls(
    client: Client,
    out: Output,
    statuses: tuple[Status, ...],
    platform: str | None,
    labels: tuple[str, ...],
    parent: str | None,
    limit: int | None,
    sort: str,
    full: bool,
) -> None:
    """List jobs, newest first. The live ones are looked at first."""
    most = longest_list(out, limit)
    asked_labels = read_pairs("--label", labels)
    jobs = client.list_jobs(
        statuses=statuses,
        platform=platform,
        labels=asked_labels,
        parent=parent,
        limit=most and most + 1,
        sort=sort,
    )
    shown = jobs[:most]
    out.object([job.to_json(history=full) for job in shown])
    if shown:
        metric, settings = sorted_columns(jobs, shown, sort)
        causes = {job.id: client.known_cause(job) for job in shown}
        narrow = out.width is not None
        head, *rows = show.listing(
            shown, utc_now(), causes, metric, hidden=asked_labels, narrow=narrow, settings=settings
        )
        if show.fits_message([head, *rows], out.width):
            out.table(head, rows)
        else:
            out.table(head[:-1], [cells[:-1] for cells in rows])
            out.note("Too narrow for the messages. Why a job waits or failed: tao why JOB")
    else:
        out.note(none_of(client, chosen(statuses, platform, labels, parent)))
    if cost := running_cost(jobs):
        out.note(f"What these jobs rent costs {cost}.")
    if len(jobs) > len(shown):
        out.note(f"{which_are_shown(len(shown), sort)}; all of them: tao ls --limit 0")


def running_cost(jobs: Sequence[Job]) -> str:
    """`$2.24 per hour`: the price of all that the jobs rent now; "" if that is nothing."""
    paying = [job for job in jobs if job.is_still_rented or not job.status.terminal]
    return hourly_words(sum(job.price_per_hour for job in paying))


def sorted_columns(
    jobs: Sequence[Job], shown: Sequence[Job], sort: str
) -> tuple[str | None, Sequence[str]]:
    """The metric whose best values are shown (None: each job's own), and the settings that have a
    column.
    """
    if setting := sorting_setting(jobs, sort):
        return None, [setting]
    if sort in FIXED_ORDERS:
        return None, []
    return sort, swept_settings(shown)


def longest_list(out: Output, limit: int | None) -> int | None:
    """The largest number of jobs to show; None for all of them."""
    if limit is not None:
        return limit or None
    return None if out.json else MANY


def which_are_shown(count: int, sort: str) -> str:
    """`These are the newest 20`; for one job, `This is the newest`."""
    which = "newest" if sort == "created" else "first"
    if count == 1:
        return f"This is the {which}"
    return f"These are the {which} {count}"


def chosen(
    statuses: tuple[Status, ...], platform: str | None, labels: tuple[str, ...], parent: str | None
) -> str:
    """The flags that narrowed the list, as they were typed."""
    asked = {
        "--status": [status.value for status in statuses],
        "--platform": (platform,),
        "--label": labels,
        "--parent": (parent,),
    }
    return " ".join(
        f"{flag} {value}" for flag, values in asked.items() for value in values if value
    )


def none_of(client: Client, narrowed: str) -> str:
    if narrowed and client.list_jobs(limit=1, look=False):
        return f"There are jobs, but none for {narrowed}. All of them: tao ls"
    from tao_sdk.client.opening import published_store

    if theirs := published_store(client.settings):
        return f"No jobs here. Those of version 7 are in {theirs}: tao --state-file {theirs} ls"
    return "No jobs. Start one: tao run job.yaml"


@command("status")
@click.argument("jobs", nargs=-1, type=JobId(), metavar="[JOB...]")
def status(client: Client, out: Output, jobs: tuple[str, ...]) -> int:
    """Show how jobs stand, as seen now; without one, the newest. The exit code is 4 when a live job
    could not be looked at.
    """
    began = utc_now()
    found = [client.get_job(job_or_newest(client, out, job)) for job in jobs or [None]]
    out.object(one_or_list([job.to_json() for job in found], len(found)))
    for job in found:
        out.lines(show.details(job, out, results_folder(client, job)))
    unseen = [
        job
        for job in found
        if not job.status.terminal and (job.seen_at is None or job.seen_at < began)
    ]
    not_seen = any(job.reason_code is Reason.NOT_SEEN for job in unseen)
    return exit_codes.UNREACHABLE if not_seen else exit_codes.DONE


def results_folder(client: Client, job: Job) -> str:
    """The folder of the job's results; `none` for an ended job that left no folder."""
    from tao_sdk.client.job_end import has_results_folder

    folder = show.path(job.results_dir)
    if not folder or has_results_folder(client, job):
        return folder
    if job.status.terminal:
        return "none"
    return f"{folder}  (not there yet)"


@command("events")
@click.argument("job", required=False, type=JobId())
@click.option(
    "--since", type=click.IntRange(0), default=0, metavar="N", help="Only events after number N."
)
@click.option(
    "--follow",
    "-f",
    is_flag=True,
    help="Go on with what happens from now on; of a job, until it has ended.",
)
def events(client: Client, out: Output, job: str | None, since: int, follow: bool) -> None:
    """Show everything that happened to a job, or to all, in order. Each event has a number that
    --since takes.
    """
    happened = client.events(newest(client, out, job) if job else None, since, follow)
    progress_by_job: dict[str, Progress] = {}
    if not follow:
        listed = list(happened)
        out.object([event.to_json() for event in listed])
        out.lines(
            show.event(event, out, progress_of(client, event, progress_by_job)) for event in listed
        )
        return
    last = since
    try:
        for event in happened:
            last = event.seq
            out.json_line(event.to_json())
            out.line(show.event(event, out, progress_of(client, event, progress_by_job)))
    except KeyboardInterrupt:
        raise Detached(
            "Detached.", f"tao events {job or ''} --since {last} --follow".replace("  ", " ")
        ) from None


def progress_of(client: Client, event: Event, known: dict[str, Progress]) -> Progress | None:
    """The progress of an event's job, if the event names an epoch; each job is read once. None for
    any other event, and if the job was removed meanwhile.
    """
    if "epoch" not in event.data:
        return None
    if event.job_id not in known:
        try:
            known[event.job_id] = client.get_job(event.job_id, look=False).progress
        except JobNotFound:
            return None
    return known[event.job_id]


@command("why")
@optional_job_argument
def why(client: Client, out: Output, job: str | None) -> None:
    """Say why a job waits or failed: the cause, what was seen, what to do. Without a job, that of
    the newest.
    """
    found = client.get_job(job_or_newest(client, out, job))
    diagnosis = client.diagnose(found.id)
    activity = client.activity(found.id)
    notes = client.notes(found.id)
    out.object(why_view(found, diagnosis, activity, notes))
    if out.json:
        return
    lines = show.why(found, diagnosis, out)
    if found.status is Status.RUNNING:
        lines += show.standstill(found, activity, epoch_told_at(found, activity))
        lines += missing_program(activity)
        lines += last_words(client, found, out)
    for note in notes:
        lines += show.labelled("Note:", note, out.width)
    if failure := client.failure_while_ending(found.id):
        from tao_sdk.cli.results_text import failed_end_lines

        lines += failed_end_lines(failure, client.results(found.id))
    lost = client.lost_results(found.id) if found.status is Status.CANCELED else ""
    out.lines([*lines, *show.labelled("Not kept:", lost, out.width)])


def missing_program(activity: Activity | None) -> list[str]:
    """The command that installs the program that shows where a Python process is; none if it is
    there.
    """
    command = activity.main.command if activity and activity.main else ""
    if not command:
        return []
    program = command.split()[0]
    beside_python = str(Path(sys.executable).parent)
    if shutil.which(program) or shutil.which(program, path=beside_python):
        return []
    python = shlex.quote(sys.executable or "python3")
    return [f"{program} is not installed: {python} -m pip install {program}"]


def last_words(client: Client, job: Job, out: Output) -> list[str]:
    """The last lines that a running job printed: a program that hangs has often said what it is
    at.
    """
    data = b""
    try:
        for piece in client.follow_logs(job.id, tail=LAST_WORDS, follow=False):
            data = (data + piece)[-LAST_BYTES:]
    except (PathNotFound, Unreachable):
        return []
    lines = [
        show.one_line(line) for line in data.decode("utf-8", "replace").splitlines() if line.strip()
    ]
    said = [f"  | {cut(line, out.width and out.width - 4)}" for line in lines[-LAST_WORDS:]]
    head = "It printed last:" if said else "It has printed nothing yet."
    return [head, *said, f"Follow it: tao logs -f {job.id}"]
