"""Curves: the part of a training's progress that is worth drawing, as series of values over epochs,
in panels. Pure.

Losses stand in one panel, and metrics that are better when larger in another. Not here: how they
are drawn as a picture (model/curve_svg.py) and in the terminal (model/curve_plot.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tao_sdk.model.metric_names import is_loss, telling_order, words_of
from tao_sdk.model.progress import Progress, not_finite_since, telling_metrics

MOST_SERIES = 4  # in a panel: more than four lines nobody can tell apart
_MOST = 1e30  # a larger value has diverged, and would press everything else flat


@dataclass(frozen=True)
class Series:
    """The values of one metric: (epoch, value), by the job's own number of the epoch, or by
    step.
    """

    name: str
    points: tuple[tuple[int, float], ...]

    @property
    def last(self) -> float:
        return self.points[-1][1]

    @property
    def size(self) -> float:
        return max(abs(value) for _, value in self.points)


@dataclass(frozen=True)
class Scale:
    """Maps values between `low` and `high` to places between `begin` and `end`."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)


def panels_of(progress: Progress) -> list[tuple[str, list[Series]]]:
    """Return the panels to draw, as (title, series): losses first, then the rest. A metric of one
    epoch is no curve.
    """
    names = dict.fromkeys(name for entry in progress.history for name in entry.metrics)
    drawn = [
        series
        for name in sorted(names, key=_shown_order(progress))
        if len((series := series_of(progress, name)).points) > 1
    ]
    losses = [series for series in drawn if is_loss(series.name)]
    others = _of_one_size([series for series in drawn if not is_loss(series.name)])
    return [(_panel_title(some), some[:MOST_SERIES]) for some in (losses, others) if some]


def broken_metrics(progress: Progress) -> list[str]:
    """`NaN in epoch 3: loss`, for each metric that was NaN or infinite; at most as many as a panel
    has lines.
    """
    since = list(not_finite_since(progress).items())[:MOST_SERIES]
    return [f"NaN in {progress.unit} {number}: {name}" for name, number in since]


def _shown_order(progress: Progress) -> Callable[[str], tuple[Any, ...]]:
    """A sort key: first the metrics on the screen and the end line, so that a picture of one line
    shows the same.
    """
    shown = telling_metrics(progress)
    return lambda name: (name not in shown, *telling_order(name))


def series_of(progress: Progress, name: str) -> Series:
    seen = (
        (progress.shown_number(entry), entry.metrics[name])
        for entry in progress.history
        if name in entry.metrics
    )
    return Series(name, tuple(point for point in seen if abs(point[1]) < _MOST))


def _of_one_size(series: list[Series]) -> list[Series]:
    """The series that can share an axis with the first: accuracies do with each other, not with a
    perplexity of 40.
    """
    if not series:
        return []
    size = series[0].size
    return [some for some in series if 0.1 * size <= some.size <= 10 * size]


def _panel_title(series: Sequence[Series]) -> str:
    """A word that all the names have in common, else the first name."""
    if len(series) == 1:
        return series[0].name
    common = _common_words(series)
    if common:
        return max(common, key=len)
    return series[0].name


def _common_words(series: Sequence[Series]) -> frozenset[str]:
    """The words that all the names have."""
    common = words_of(series[0].name)
    for some in series[1:]:
        common &= words_of(some.name)
    return common - {""}


def visible_text(text: str) -> str:
    """Remove the characters that cannot be seen: a document with them could not be read, or not
    even be written.
    """
    return "".join(letter for letter in text if letter.isprintable())


def format_number(value: float) -> str:
    """Format a number with three significant digits, without an exponent if that is short."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:.1e}"


def value_range(series: Sequence[Series]) -> tuple[float, float]:
    """Return the range from the least to the largest value and a little more; from 0 if that is
    near.
    """
    values = [value for some in series for _, value in some.points]
    low, high = min(values), max(values)
    size = max(abs(low), abs(high))
    if high - low <= 1e-9 * size or size < 1e-12:
        room = 0.1 * size if size > 1e-12 else 1.0
        return low - room, high + room
    room = 0.06 * (high - low)
    return (0 if 0 <= low < 0.35 * high else low - room), high + room
