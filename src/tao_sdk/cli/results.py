"""`tao results` and `tao files`: what a job left, and what is at a path, as the backend sees it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tao_sdk.cli import show
from tao_sdk.cli.command import command, job_or_newest, optional_job_argument, platform_option
from tao_sdk.client.views import changed_at, path_view, results_view
from tao_sdk.model.checkpoints import SETTLED
from tao_sdk.model.errors import PathNotFound, UsageError
from tao_sdk.model.printable import printable
from tao_sdk.model.units import format_size

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client import Client, FileStat, Results
    from tao_sdk.model.job import Job


WHOLE = {True: "whole", False: "not known to be whole"}


@command("results")
@optional_job_argument
@click.option(
    "--fetch",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Copy them into this folder, with the curve of the training.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    help=(
        "Of what --fetch copies, only this: '*.pth', 'train/*', a "
        "folder; may be given several times."
    ),
)
@click.option(
    "--epoch",
    type=click.IntRange(1),
    metavar="N",
    help="Show (and --fetch) the checkpoint of this epoch alone.",
)
def results(
    client: Client,
    out: Output,
    job: str | None,
    fetch: Path | None,
    only: tuple[str, ...],
    epoch: int | None,
) -> None:
    """Show where a job's results are, and its best and newest whole checkpoint; --fetch copies them
    here.

    Without a job, those of the newest. A file that was copied before and has not changed is not
    copied again. The exit code is 3 where there is no checkpoint of the epoch, or no file fits
    --only.
    """
    if only and (fetch is None or epoch is not None):
        raise UsageError(
            "--only says what --fetch copies.", "", "Give --fetch DIR, and no --epoch."
        )
    from tao_sdk.client.results import relative

    found = client.get_job(job_or_newest(client, out, job))
    left = client.results(found.id)
    checkpoint = left.of_epoch(epoch) if epoch is not None else None
    wanted = ["./" + escape(relative(checkpoint.path, left.dir))] if checkpoint else only
    copied = fetched(client, out, found.id, left, fetch, wanted) if fetch is not None else None
    out.object(results_view(found.id, left, copied, checkpoint))
    if checkpoint:
        out.line(
            f"{show.path(checkpoint.path)}  {format_size(checkpoint.size)}  "
            f"{WHOLE[checkpoint.complete]}"
        )
        return
    out.lines(
        []
        if out.json
        else [*results_lines(left, not found.status.terminal), *fetch_lines(found, left, fetch)]
    )


def fetched(
    client: Client, out: Output, job_id: str, left: Results, into: Path, only: Sequence[str]
) -> list[Path]:
    from tao_sdk.client.results import add_curve

    def told(name: str, size: int) -> None:
        out.note(f"{show.one_line(name)}  {format_size(size)}")

    def skipped(name: str, why: str) -> None:
        out.aside(
            f"{show.one_line(name)} was not copied. {show.one_line(why)}",
            {"note": f"{name} was not copied. {why}"},
        )

    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # to be told to end leaves no half of a file
    copied = client.fetch_results(job_id, into, on_file=told, on_skip=skipped, only=only)
    if not only:
        add_curve(into, copied, left.progress)
    return copied


def results_lines(left: Results, live: bool) -> list[str]:
    size = sum(file.size for file in left.files)
    lines = [
        f"results  {show.path(left.dir)}  ({len(left.files)} files, {format_size(size)})",
        f"best     {show.path(left.best) if left.best else '-'}"
        + (best_value(left) if left.best else why_no_best(left)),
        f"newest   {show.path(left.newest) if left.newest else '-'}" + why_none(left),
    ]
    also = [
        *(progress_line(left) if live else []),
        *(f"output   {show.path(each)}" for each in left.elsewhere),
        *missed(left),
        *(f"not read {show.path(each)}: no right to look into it" for each in left.unreadable),
    ]
    if not left.files:
        return [
            lines[0],
            "Nothing has been written there yet." if live else "The job left nothing there.",
            *also,
        ]
    return [*lines, *also, *checkpoint_lines(left), *([] if live else what_is_unsure(left))]


def what_is_unsure(left: Results) -> list[str]:
    """Why a checkpoint of an ended job is not known to be whole, and what a further attempt makes
    of it.
    """
    if all(each.complete for each in left.checkpoints):
        return []
    return [
        (
            "A job that was cut off may have left half of what it wrote in its last "
            f"{SETTLED:.0f} seconds."
        ),
        "tao retry goes on from the newest whole checkpoint; without one it begins anew.",
    ]


def progress_line(left: Results) -> list[str]:
    """How far it is, as of now."""
    words = [show.epoch(left.progress), *show.metrics(left.progress)]
    return [f"epoch    {'  '.join(words)}"] if left.progress.epoch else []


def missed(left: Results) -> list[str]:
    """What was not sent when the job was over."""
    if left.unsent:
        return [f"not sent {', '.join(map(show.one_line, left.unsent))}"]
    return [f"not kept {show.one_line(left.lost)}"] if left.lost else []


def checkpoint_lines(left: Results) -> list[str]:
    """Every checkpoint with what is known of it, below a line that says what they are."""
    found = left.checkpoints
    rows = [
        (below(each.path, left.dir), format_size(each.size), WHOLE[each.complete]) for each in found
    ]
    width = max((len(name) for name, _, _ in rows), default=0)
    head = [f"{show.plural(len(found), 'checkpoint')}:"] if found else []
    return [*head, *(f"  {name:<{width}}  {size:>8}  {known}" for name, size, known in rows)]


def below(path: str, folder: str) -> str:
    return printable(path.removeprefix(f"{folder.rstrip('/')}/"))


def fetch_lines(job: Job, left: Results, fetch: Path | None) -> list[str]:
    """Where they lie here now; else how to bring those here that lie on another machine."""
    if fetch is not None:
        return [f"here     {show.path(str(fetch)).rstrip('/')}/"]
    wanted = job.results_at and left.files
    return [f"fetch    tao results {job.id} --fetch runs/{job.id}"] if wanted else []


def best_value(left: Results) -> str:
    best = left.progress.best
    return f"  ({best.metric} {show.number(best.value)} at epoch {best.epoch})" if best else ""


def why_no_best(left: Results) -> str:
    """No value tells which is the best, or the epoch that is has no whole checkpoint."""
    best = left.progress.best
    if not left.checkpoints:
        return "  (no checkpoints)"
    if best is None:
        return "  (the job told no metric by which one is the best)"
    return f"{best_value(left)[:-1]}, which has no checkpoint that is known to be whole)"


def why_none(left: Results) -> str:
    """There are some, and the job ended, or was looked at last, too soon after they
    were written.
    """
    found = left.checkpoints
    return (
        f"  ({show.known_whole(found)})"
        if found and not any(each.complete for each in found)
        else ""
    )


@command("files")
@click.argument("uri")
@platform_option(default="local", show_default=True, help="As this platform sees it.")
def files(client: Client, out: Output, uri: str, platform: str) -> None:
    """Show what a path is, as the backend sees it; of a folder, what is in it. The exit code is 3
    when there is nothing.
    """
    from tao_sdk.client.results import backend_path

    there, path = client.files(platform, uri), backend_path(uri)
    try:
        stat = there.stat(path)
    except PathNotFound as error:
        raise elsewhere(error, uri, client.platform_at(platform)) from None
    inside = sorted(there.list(path), key=lambda each: each.path) if stat.is_dir else []
    out.object(path_view(stat, inside))
    out.lines(file_line(each) for each in (inside if stat.is_dir else [stat]))


def elsewhere(error: PathNotFound, uri: str, platform: str) -> PathNotFound:
    """What names a file system of a cluster was hardly meant for another place."""
    scheme = uri.partition("://")[0]
    if scheme not in ("lustre", "slurm") or platform == "slurm":
        return error
    why = f"{scheme}:// names a file system of a cluster, and {platform} was asked."
    return PathNotFound(error.what, why, "Ask the cluster: --platform slurm")


def file_line(stat: FileStat) -> str:
    moment = changed_at(stat)
    when = moment.astimezone().strftime("%Y-%m-%d %H:%M") if moment else ""
    size = "folder" if stat.is_dir else format_size(stat.size)
    return f"{size:>10}  {when:<16}  {printable(stat.path)}{'/' if stat.is_dir else ''}"
