"""`tao compare`: jobs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tao_sdk.cli import show
from tao_sdk.cli.command import JobId, all_named, command
from tao_sdk.cli.output import cut
from tao_sdk.client.typed_values import read_pairs
from tao_sdk.client.views import comparison_view
from tao_sdk.model.job_settings import PLAIN_WORD
from tao_sdk.model.ranking import FIXED_ORDERS, best_value, sorting_setting

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client
    from tao_sdk.model.comparison import Compared, Comparison
    from tao_sdk.model.progress import Best, Progress

CELL = 32  # letters of a setting on a terminal
MOST_SETTINGS = 12  # columns of the table; --json has all


@command("compare")
@click.argument("jobs", nargs=-1, type=JobId(), metavar="[JOB...]")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="All jobs with this label; given several times, those with all of them.",
)
@click.option(
    "--metric",
    metavar="NAME",
    help="Compare by this metric. Default: the one that most of the jobs have.",
)
@click.option(
    "--sort",
    metavar="ORDER",
    help=(
        "created, name, status, a metric (the best first), or a setting or label (the smallest "
        "first). Default: as they are named."
    ),
)
@click.option(
    "--out",
    "picture",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The picture, an SVG. Default: compare.svg here.",
)
def compare(
    client: Client,
    out: Output,
    jobs: tuple[str, ...],
    labels: tuple[str, ...],
    metric: str | None,
    sort: str | None,
    picture: Path | None,
) -> None:
    """Show in which settings jobs differ, and the best and last values they came to, with a picture
    of their curves. A name that several jobs have means all of them.
    """
    from tao_sdk.client.compare import (
        PICTURE,
        draw,
        labelled_jobs,
        refuse_other_format,
        sorted_comparison,
        write_picture,
    )

    if picture:
        refuse_other_format(picture)
    named = [job_id for job in jobs for job_id in all_named(client, out, job)]
    labelled = labelled_jobs(client, read_pairs("--label", labels), named)
    comparison = client.compare([*named, *labelled], metric)
    if sort:
        comparison = sorted_comparison(comparison, sort)
    svg = draw(comparison)
    written = write_picture(picture or Path(PICTURE), svg) if svg else None
    out.object(comparison_view(comparison, written))
    head, *rows = table(comparison, CELL if out.width else None, sort)
    out.table(head, rows)
    out.note(settings_note(comparison))
    if written:
        out.line(f"picture  {show.path(str(written.absolute()))}")
    else:
        out.note("No picture: none of these jobs has told a metric in two epochs.")


def table(
    comparison: Comparison, width: int | None, sort: str | None = None
) -> list[tuple[str, ...]]:
    """A head, and a row for each job. The values stand before the settings, as these may be many.

    If the jobs are sorted by another metric than the compared one, it has a column of its own.
    """
    metric = comparison.metric
    values = [f"BEST {metric}", f"LAST {metric}"] if metric else []
    sorted_by = sort_metric(comparison, sort)
    sort_head = [f"BEST {sorted_by}"] if sorted_by else []
    settings_head = map(setting_head, shown_settings(comparison))
    head = ("ID", "STATUS", *sort_head, *values, *settings_head)
    rows = [row(job, comparison, width, sorted_by) for job in comparison.jobs]
    return [head, *rows]


def shown_settings(comparison: Comparison) -> tuple[str, ...]:
    """The settings that have a column. They are limited: unrelated jobs differ in hundreds."""
    return comparison.differ[:MOST_SETTINGS]


def setting_head(name: str) -> str:
    """`specs.train.lr`; `command, word 3` for a plain word of the command."""
    return f"command, {name}" if PLAIN_WORD.fullmatch(name) else name


def settings_note(comparison: Comparison) -> str:
    """Say that the jobs have the same settings, or that there are more than the table shows."""
    if not comparison.differ:
        return "Their settings do not differ."
    hidden = len(comparison.differ) - MOST_SETTINGS
    if hidden <= 0:
        return ""
    verb = "differs" if hidden == 1 else "differ"
    ids = " ".join(compared.job.id for compared in comparison.jobs)
    return f"{show.plural(hidden, 'more setting')} {verb}: tao compare --json {ids}"


def sort_metric(comparison: Comparison, sort: str | None) -> str | None:
    """The metric that jobs are sorted by. None if its column is there already, for a setting, and
    for `name` and such.
    """
    if sort is None or sort in (*FIXED_ORDERS, comparison.metric):
        return None
    if sorting_setting([compared.job for compared in comparison.jobs], sort):
        return None
    return sort


def row(
    compared: Compared, comparison: Comparison, width: int | None, sorted_by: str | None
) -> tuple[str, ...]:
    progress = compared.job.progress
    sort_cells = [best(progress, best_value(progress, sorted_by))] if sorted_by else []
    values = [best(progress, compared.best), last(compared)] if comparison.metric else []
    settings = [
        cut(cell(compared.settings.get(name)), width) for name in shown_settings(comparison)
    ]
    return (compared.job.id, compared.job.status.value, *sort_cells, *values, *settings)


def best(progress: Progress, value: Best | None) -> str:
    return show.best_number(progress, value) if value else ""


def last(compared: Compared) -> str:
    return "" if compared.last is None else show.number(compared.last)


def cell(value: Any) -> str:
    return "-" if value is None else show.one_line(str(value))
