"""`tao results` and `tao files`: the results of a job, and the file or folder at a path, as the
backend sees it.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Sequence
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tao_sdk.cli import results_text, show
from tao_sdk.cli.command import command, job_or_newest, optional_job_argument, platform_option
from tao_sdk.client.known_jobs import ids_named
from tao_sdk.client.views import changed_at, path_view, results_view
from tao_sdk.model.errors import PathNotFound, SeveralJobs, UsageError
from tao_sdk.model.ranking import in_order
from tao_sdk.model.units import format_size

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client import Client, FileStat, Results
    from tao_sdk.model.checkpoints import Checkpoint
    from tao_sdk.model.job import Job


ONLY_TAKES = "It takes a pattern of names, such as '*.pth' or 'train/*'."
LONGEST_NUMBER = 9  # digits of an epoch
BEST = "best"
NEWEST_WORDS = ("newest", "latest", "last")


class EpochName(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  generic since click 8.4 only
    """The number of an epoch, or a word for the best or the newest checkpoint."""

    name = "epoch"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        word = str(value).lower()
        if word == BEST or word in NEWEST_WORDS:
            return word
        if word.isdecimal() and len(word) <= LONGEST_NUMBER:
            return int(word)
        self.fail(f"{value!r} is no epoch. Give its number, best or last.", param, ctx)


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
        "folder; may be given several times. Not together with --epoch."
    ),
)
@click.option(
    "--epoch",
    type=EpochName(),
    metavar="N|best|last",
    help=(
        "Show (and --fetch) one checkpoint alone: that of this epoch, by the number of the job's "
        "log, the best by the job's metric, or the newest that is whole. Not together with --only."
    ),
)
def results(
    client: Client,
    out: Output,
    job: str | None,
    fetch: Path | None,
    only: tuple[str, ...],
    epoch: int | str | None,
) -> None:
    """Show where a job's results are, and its best and newest whole checkpoint; --fetch copies them
    here.

    Without a job, those of the newest. A file that was copied before and has not changed is not
    copied again. The exit code is 3 where there is no checkpoint of the epoch, nothing to copy, or
    no file that fits --only.

    With --epoch a script reads only the path, with --fetch that of the copy:

    \b
      CKPT=$(tao results JOB --epoch best)
      tao run --files eval.py --inputs best.pt="$CKPT" -- python eval.py --ckpt best.pt
    """
    refuse_flags_of_only(job, fetch, only, epoch)
    if job and epoch is not None:
        refuse_shared_name(client, job, epoch)
    from tao_sdk.client.results import relative

    found = client.get_job(job_or_newest(client, out, job))
    left = client.results(found.id)
    checkpoint = None
    if epoch is not None:
        checkpoint = checkpoint_of(found, left, epoch)
        out.note(results_text.choice_line(left, checkpoint, epoch))
        only = ("./" + escape(relative(checkpoint.path, left.dir)),)
    copied = None
    if fetch is not None:
        refuse_nothing_to_fetch(found, left)
        refuse_checkpoint_words(found, left, only)
        copied = fetch_files(client, out, found.id, left, fetch, only)
    out.object(results_view(found.id, left, copied, checkpoint))
    if checkpoint and out.terminal:
        out.line(results_text.checkpoint_line(checkpoint))
        out.lines(results_text.fetch_lines(found, left, fetch) if fetch else [])
    elif checkpoint:
        print_path(out, found, left, checkpoint, fetch)
    elif not out.json:
        out.lines(results_text.results_lines(left, live=not found.status.terminal))
        out.lines(results_text.fetch_lines(found, left, fetch))


def refuse_flags_of_only(
    job: str | None, fetch: Path | None, only: Sequence[str], epoch: int | str | None
) -> None:
    """Raise UsageError for --only together with --epoch, or without --fetch."""
    if not only:
        return
    if epoch is not None:
        words = ["tao", "results"]
        if job:
            words.append(job)
        if fetch:
            words += ["--fetch", str(fetch)]
        words += ["--epoch", str(epoch)]
        raise UsageError(
            "--only and --epoch cannot be given together.",
            "Each of them chooses what --fetch copies.",
            "The checkpoint:",
            shlex.join(words),
        )
    if fetch is None:
        raise UsageError(
            "--only says what --fetch copies.",
            ONLY_TAKES,
            "Give --fetch DIR as well. The best checkpoint: tao results JOB --epoch best",
        )


def refuse_shared_name(client: Client, name: str, epoch: int | str) -> None:
    """Raise SeveralJobs if several jobs have the name: a script would take the checkpoint of any of
    them. For the best checkpoint the job with the best metric is named first.
    """
    ids = ids_named(client, name)
    if len(ids) < 2:
        return
    comparison = client.compare(ids)
    if epoch != BEST or comparison.metric is None:
        raise SeveralJobs.of(name, ids)
    jobs = in_order([compared.job for compared in comparison.jobs], comparison.metric)
    advice = f"{jobs[0].id} has the best {comparison.metric}."
    raise SeveralJobs.of(name, [job.id for job in jobs], advice)


def print_path(
    out: Output, job: Job, left: Results, checkpoint: Checkpoint, fetch: Path | None
) -> None:
    """Print one checkpoint for a program: its path alone on stdout, or the path of its copy if one
    was made. All other facts go to stderr.
    """
    from tao_sdk.client.results import relative

    out.note(results_text.state_of(checkpoint))
    if fetch is None:
        out.line(checkpoint.path)
        return
    copy = fetch / relative(checkpoint.path, left.dir)
    out.line(str(copied_path(copy, job.id)))
    for line in results_text.fetch_lines(job, left, fetch):
        out.note(line)


def copied_path(copy: Path, job_id: str) -> Path:
    """The absolute path of a copy. Raises PathNotFound if nothing was copied there."""
    if copy.exists():
        return copy.absolute()
    raise PathNotFound("The checkpoint was not copied.", "", "See:", f"tao results {job_id}")


def checkpoint_of(job: Job, left: Results, epoch: int | str) -> Checkpoint:
    """The checkpoint of the epoch, by the number of the job's log, or the best or newest. Raises
    PathNotFound, which names the command for this job.
    """
    if isinstance(epoch, str):
        return named_checkpoint(job, left, epoch)
    try:
        return left.of_shown_epoch(epoch)
    except PathNotFound as error:
        words = "All of them:" if left.checkpoints else "What it left:"
        raise PathNotFound(error.what, error.why, words, f"tao results {job.id}") from None


def named_checkpoint(job: Job, left: Results, word: str) -> Checkpoint:
    """The best or the newest checkpoint. Raises PathNotFound if none is certain."""
    path = checkpoint_meant(left, word)
    meant = next((each for each in left.checkpoints if each.path == path), None)
    if word != BEST:
        meant = called_last(left, meant) or meant
    if meant:
        return meant
    which = BEST if word == BEST else "newest whole"
    words = "All of them:" if left.checkpoints else "What it left:"
    why = results_text.why_none(left, word)
    raise PathNotFound(f"There is no {which} checkpoint.", why, words, f"tao results {job.id}")


def called_last(left: Results, newest: Checkpoint | None) -> Checkpoint | None:
    """The whole checkpoint with the name `last` or `latest`, unless the newest other one has a
    number or is newer.
    """
    if newest and (newest.epoch is not None or newest.step is not None):
        return None
    called = [each for each in left.checkpoints if each.is_latest and each.complete]
    found = max(called, key=lambda checkpoint: checkpoint.mtime, default=None)
    if found and newest and not newest.is_best and newest.mtime > found.mtime:
        return None
    return found


def refuse_nothing_to_fetch(job: Job, left: Results) -> None:
    """Raise PathNotFound if there is neither a file to copy nor a curve to write."""
    if left.can_be_fetched:
        return
    if left.not_kept:
        raise PathNotFound(f"{job.id} has no results to fetch.", "", left.not_kept)
    if job.status.terminal:
        raise PathNotFound(f"{job.id} left no results.", "", results_text.KEEP)
    raise PathNotFound(f"{job.id} has no results.", results_text.no_files(live=True))


def refuse_checkpoint_words(job: Job, left: Results, only: Sequence[str]) -> None:
    """Raise PathNotFound for `--only best` and the like if no file has that name, with the command
    that copies the checkpoint.
    """
    from tao_sdk.client.results import fits, relative

    names = [relative(file.path, left.dir) for file in left.files]
    for word in only:
        checkpoint = checkpoint_meant(left, word)
        if checkpoint and not any(fits(name, word) for name in names):
            pattern = shlex.quote("./" + escape(relative(checkpoint, left.dir)))
            raise PathNotFound(
                f"No file of the results fits --only {word}.",
                ONLY_TAKES,
                "That checkpoint alone:",
                f"tao results {job.id} --fetch DIR --only {pattern}",
            )


def checkpoint_meant(left: Results, word: str) -> str | None:
    """The path of the checkpoint that people call by this word; None for any other word."""
    if word == BEST:
        return left.best
    return left.newest if word in NEWEST_WORDS else None


def fetch_files(
    client: Client, out: Output, job_id: str, left: Results, into: Path, only: Sequence[str]
) -> list[Path]:
    """Copy the files that `only` names, or all with the curve. Print each as it is copied."""
    from tao_sdk.client.results import add_curve

    def tell_copied(name: str, size: int) -> None:
        out.note(f"{show.one_line(name)}  {format_size(size)}")

    def tell_skipped(name: str, why: str) -> None:
        out.aside(
            f"{show.one_line(name)} was not copied. {show.one_line(why)}",
            {"note": f"{name} was not copied. {why}"},
        )

    # SIGTERM leaves no half of a file
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    copied = client.fetch_results(
        job_id, into, on_file=tell_copied, on_skip=tell_skipped, only=only
    )
    if not only:
        add_curve(into, copied, left.progress)
    return copied


@command("files")
@click.argument("uri")
@platform_option(
    help="As this platform sees it. Default: the one that the address names, or local."
)
def files(client: Client, out: Output, uri: str, platform: str | None) -> None:
    """Show a path as the platform sees it; of a folder, what is in it. The exit code is 3
    when there is nothing.
    """
    from tao_sdk.client.results import platform_of_address

    platform = platform or platform_of_address(uri) or "local"
    there, path = client.files(platform, uri), client.path_at(uri, platform)
    try:
        stat = there.stat(path)
    except PathNotFound as error:
        error = elsewhere(error, uri, client.platform_at(platform))
        raise results_of_job(client, error, uri) from None
    inside: list[FileStat] = []
    shown = [stat]
    if stat.is_dir:
        inside = shown = sorted(there.list(path), key=lambda file: file.path)
    out.object(path_view(stat, inside))
    out.lines(file_line(file) for file in shown)


def elsewhere(error: PathNotFound, uri: str, platform: str) -> PathNotFound:
    """The error. If the path is on a file system of a cluster, it names the platform to ask."""
    scheme = uri.partition("://")[0]
    if scheme not in ("lustre", "slurm") or platform == "slurm":
        return error
    why = f"{scheme}:// names a file system of a cluster, and {platform} was asked."
    return PathNotFound(error.what, why, "Ask the cluster: --platform slurm")


def results_of_job(client: Client, error: PathNotFound, word: str) -> PathNotFound:
    """The error. If the word is a job's id or name, it names the command for its results."""
    named = ids_named(client, word)
    if not named:
        return error
    why = f"{word} is a job."
    return PathNotFound(error.what, why, "What it left:", f"tao results {named[0]}")


def file_line(stat: FileStat) -> str:
    """`  12.3 kB  2026-01-31 14:03  train/model.pth`; a folder ends in a slash."""
    moment = changed_at(stat)
    when = moment.astimezone().strftime("%Y-%m-%d %H:%M") if moment else ""
    if stat.is_dir:
        return f"{'folder':>10}  {when:<16}  {stat.path}/"
    return f"{format_size(stat.size):>10}  {when:<16}  {stat.path}"
