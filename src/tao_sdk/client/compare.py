"""Comparing jobs: the jobs with a label, the picture of their curves, and the file that holds it.

Not here: in which settings they differ, and how they did (model/comparison.py).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tao_sdk.backends.below import Below
from tao_sdk.client.known_jobs import (
    LIST_BY_LABEL,
    jobs_labelled,
    known_labels,
    label_words,
)
from tao_sdk.client.results import NotWritten
from tao_sdk.model.comparison import Compared, Comparison
from tao_sdk.model.curve import Series, series_of, visible_text
from tao_sdk.model.curve_svg import COMPARISON_MARK, comparison_svg
from tao_sdk.model.errors import PathNotFound, UsageError
from tao_sdk.model.ranking import in_order

if TYPE_CHECKING:
    from tao_sdk.client.client import Client

PICTURE = "compare.svg"
ENDING = ".svg"
HEAD_BYTES = 1024  # the first bytes of a picture: its mark is in them
NAME_LETTERS = 56  # for a job with its settings, beside the plot


def labelled_jobs(client: Client, labels: Mapping[str, str], others: Collection[str]) -> list[str]:
    """The ids of the jobs that have all these labels, to compare with `others`; empty if no label
    is given.

    Raises JobNotFound if no job has them, UsageError if only one job would be compared.
    """
    if not labels:
        return []
    found = [job.id for job in jobs_labelled(client, labels)]
    if len({*found, *others}) > 1:
        return found
    what = f"Only {found[0]} has the {label_words(labels)}; two jobs or more are compared."
    raise UsageError(what, known_labels(client), LIST_BY_LABEL)


def sorted_comparison(comparison: Comparison, order: str) -> Comparison:
    """The same jobs in the order of `tao ls --sort`. Raises UsageError for a metric that no job
    has.
    """
    newest_first = sorted(
        (compared.job for compared in comparison.jobs), key=lambda job: job.created, reverse=True
    )
    places = {job.id: place for place, job in enumerate(in_order(newest_first, order))}
    jobs = sorted(comparison.jobs, key=lambda compared: places[compared.job.id])
    return replace(comparison, jobs=tuple(jobs))


def refuse_other_format(path: Path) -> None:
    """Raise UsageError for a file name that ends as another format's than SVG."""
    if path.suffix.lower() in ("", ENDING):
        return
    name = shlex.quote(str(path.with_suffix(ENDING)))
    what = f"The picture is an SVG, and {path.name} ends in {path.suffix}."
    raise UsageError(what, "", f"Name it: --out {name}")


def draw(comparison: Comparison) -> str:
    """The picture; "" if no job has reported the metric in two epochs."""
    lines = [
        series for compared in comparison.jobs if (series := _line(compared, comparison.metric))
    ]
    title = visible_text(comparison.metric or "")[:NAME_LETTERS]
    return comparison_svg(title, lines, _unit_of(comparison)) if lines else ""


def _unit_of(comparison: Comparison) -> str:
    """The unit of the curves: epochs or steps, or both if the jobs differ."""
    progresses = [compared.job.progress for compared in comparison.jobs]
    units = {progress.unit for progress in progresses if progress.is_counted}
    return " or ".join(sorted(units)) or "epoch"


def _line(compared: Compared, metric: str | None) -> Series | None:
    series = series_of(compared.job.progress, metric or "")
    settings = " ".join(
        f"{name.removeprefix('label ')}={value}" for name, value in compared.settings.items()
    )
    name = visible_text(f"{compared.job.id} {settings}")
    name = name if len(name) <= NAME_LETTERS else name[: NAME_LETTERS - 1] + "…"
    return replace(series, name=name.strip()) if len(series.points) > 1 else None


def write_picture(path: Path, svg: str) -> Path:
    """Write the picture. It replaces an earlier picture. Raises NotWritten if any other file is
    there, or nothing can be written.
    """
    folder = Below(str(path.parent), follow=True)
    try:
        if _is_there(path):
            _refuse_other(folder, path)
            with folder.creating(path.name, f".{path.name}.{os.getpid()}.part") as file:
                file.write(svg.encode())
        else:
            folder.create(path.name, svg.encode())
    except OSError as error:
        raise NotWritten(
            f"{path} could not be written.",
            f"{error.strerror or error}.",
            "Choose another: --out FILE",
        ) from error
    return path


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _refuse_other(folder: Below, path: Path) -> None:
    why = "It is no picture of tao compare, and is left as it is."
    other = NotWritten(f"{path} is there already.", why, "Choose another: --out FILE")
    if path.is_symlink():
        raise other
    try:
        with folder.reading(path.name) as file:
            ours = COMPARISON_MARK.encode() in file.read(HEAD_BYTES)
    except (PathNotFound, IsADirectoryError) as error:
        raise other from error
    if not ours:
        raise other
