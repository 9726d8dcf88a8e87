"""Curves: a training's progress as a picture, an SVG that needs nothing else, and a plot of braille dots for the terminal.

Both show the losses in one panel and what is better when larger in another, over epochs, with the best epoch marked. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any

from tao_sdk.model.progress import (
    Best,
    Progress,
    is_loss,
    not_finite_since,
    smaller_is_better,
    telling_metrics,
    telling_order,
    words_of,
)

MOST_SERIES = 4  # in a panel: more than four lines nobody can tell apart
_MOST = 1e30  # what is larger has diverged, and would press everything else flat

_PANEL_WIDTH, _HEIGHT = 400, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 20, 66, 40  # of the plot within its panel
_NAMES_WIDTH, _NAME_HEIGHT = 400, 18  # beside a plot that compares jobs
_DASHES = ("none", "7 4", "2 4", "12 4 2 4")
COMPARISON_MARK = "<!-- tao compare -->"  # tells our picture from a file of somebody else

_LEGEND, _LEGEND_ROW = 50, 16  # the first row of names, and the distance to the next
_CHARACTER, _LONGEST_NAME = 6.6, 40  # the width of one, and how many of a name are shown

_STYLE = """
  .card { fill: #ffffff; stroke: #e4e7ec }
  text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #667085 }
  .title { font-size: 14px; font-weight: 600; fill: #1d2939 }
  .best-text { font-weight: 600; fill: #475467 }
  .grid { stroke: #eaecf0 }
  .axis { stroke: #98a2b3 }
  .best { stroke: #98a2b3; stroke-dasharray: 2 4; stroke-linecap: round }
  .broken { stroke: #e0484d; stroke-dasharray: 4 3 }
  .broken-text { fill: #e0484d; font-weight: 600 }
  .line { fill: none; stroke-width: 2.25; stroke-linejoin: round; stroke-linecap: round }
  .thin { stroke-width: 1.4 }
  .ring { stroke: #ffffff; stroke-width: 1.5 }
  .a { stroke: #3b6ef5 } .b { stroke: #f2762e } .c { stroke: #12a594 } .d { stroke: #a855c7 }
  .fa { fill: #3b6ef5 } .fb { fill: #f2762e } .fc { fill: #12a594 } .fd { fill: #a855c7 }
"""
_DARK = """
  .card { fill: #14171f; stroke: #2a2f3a }
  text { fill: #98a2b3 }
  .title { fill: #f2f4f7 }
  .best-text { fill: #d0d5dd }
  .grid { stroke: #232834 }
  .axis { stroke: #667085 }
  .best { stroke: #667085 }
  .ring { stroke: #14171f }
  .a { stroke: #7aa2ff } .b { stroke: #ff9a5c } .c { stroke: #3fd0bf } .d { stroke: #cf8df0 }
  .fa { fill: #7aa2ff } .fb { fill: #ff9a5c } .fc { fill: #3fd0bf } .fd { fill: #cf8df0 }
"""
_COLOURS = "abcd"


@dataclass(frozen=True)
class Series:
    """The values of one metric: (epoch, value), by epoch."""

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
    """What is worth drawing, as (title, series): losses first, then the rest. A metric of one epoch is no curve."""
    names = dict.fromkeys(name for entry in progress.history for name in entry.metrics)
    drawn = [
        series
        for name in sorted(names, key=_shown_order(progress))
        if len((series := series_of(progress, name)).points) > 1
    ]
    losses = [series for series in drawn if is_loss(series.name)]
    others = _of_one_size([series for series in drawn if not is_loss(series.name)])
    return [(_title(some), some[:MOST_SERIES]) for some in (losses, others) if some]


def curve_svg(progress: Progress) -> str:
    """The curves as a whole SVG document, which follows the light or dark of where it is shown."""
    panels = panels_of(progress)
    width = _PANEL_WIDTH * max(len(panels), 1)
    drawn = [_panel(progress, title, some, _PANEL_WIDTH * number) for number, (title, some) in enumerate(panels)]
    none = "; ".join(_said_of_broken(progress)) or "No epoch has ended yet."
    nothing = f'<text x="{width / 2:g}" y="{_HEIGHT / 2:g}" text-anchor="middle">{_written(none)}</text>'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT}" width="{width}" height="{_HEIGHT}"'
            f' role="img" aria-label="{_written(_spoken(progress, panels))}">',
            f"<style>{_STYLE}@media (prefers-color-scheme: dark) {{{_DARK}}}</style>",
            f'<rect class="card" x=".5" y=".5" width="{width - 1}" height="{_HEIGHT - 1}" rx="10"/>',
            *(drawn or [nothing]),
            "</svg>\n",
        ]
    )


def comparison_svg(title: str, lines: Sequence[Series]) -> str:
    """One line a job over the epochs, each with its name beside the plot, as a whole SVG document."""
    height = max(_HEIGHT, _TOP + _NAME_HEIGHT * len(lines))
    width = _PANEL_WIDTH + _NAMES_WIDTH
    first = min(some.points[0][0] for some in lines)
    last = max(first + 1, *(some.points[-1][0] for some in lines))
    low, high = _value_range(lines)
    across = Scale(first, last, _LEFT, _PANEL_WIDTH - _RIGHT)
    up = Scale(low, high, _HEIGHT - _BOTTOM, _TOP)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            f' role="img" aria-label="{_written(f"{title} of {len(lines)} jobs")}">',
            COMPARISON_MARK,
            f"<style>{_STYLE}@media (prefers-color-scheme: dark) {{{_DARK}}}</style>",
            f'<rect class="card" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10"/>',
            f'<text class="title" x="20" y="30">{_written(title)}</text>',
            *_grid(_value_ticks(low, high), across, up),
            *_epoch_axis(_epoch_ticks(first, last), across),
            *(_named_line(some, place, across, up) for place, some in enumerate(lines)),
            "</svg>\n",
        ]
    )


def _named_line(series: Series, place: int, across: Scale, up: Scale) -> str:
    """A job's line, and its name in the column beside the plot. Beyond four jobs, the dashes tell one from another."""
    colour, dashes = _COLOURS[place % 4], _DASHES[place // 4 % len(_DASHES)]
    y = _TOP + _NAME_HEIGHT * place
    sample = f'<path class="line {colour}" d="M{_PANEL_WIDTH} {y - 4}h24"/>'
    return (
        f'<g stroke-dasharray="{dashes}">{_line(series, colour, across, up)}{sample}</g>'
        f'<text x="{_PANEL_WIDTH + 32}" y="{y}">{_written(series.name)}</text>'
    )


def curve_text(progress: Progress, width: int = 80, height: int = 6) -> list[str]:
    """The curves in lines of at most `width` characters: panels side by side where there is room, else one above another."""
    panels = panels_of(progress)
    beside = len(panels) if width >= 36 * len(panels) else 1
    each = (width - 3 * (beside - 1)) // max(beside, 1)
    blocks = [_text_panel(series[0], each, height) for _, series in panels] if each >= 16 else []
    rows = [blocks[start : start + beside] for start in range(0, len(blocks), max(beside, 1))]
    drawn = [_joined(line, each) for row in rows for line in zip(*row, strict=True)]
    return [*drawn, *(line[:width] for line in _said_of_broken(progress))]


def _said_of_broken(progress: Progress) -> list[str]:
    """`NaN in epoch 3: loss`, for each metric that is no number now; at most as many as a panel has lines."""
    return [f"NaN in epoch {epoch}: {name}" for name, epoch in not_finite_since(progress).items()][:MOST_SERIES]


def _shown_order(progress: Progress) -> Callable[[str], tuple[Any, ...]]:
    """First what the screen and the end line show, so that a picture of one line shows the same."""
    shown = telling_metrics(progress)
    return lambda name: (name not in shown, *telling_order(name))


def series_of(progress: Progress, name: str) -> Series:
    seen = ((entry.epoch, entry.metrics[name]) for entry in progress.history if name in entry.metrics)
    return Series(name, tuple(point for point in seen if abs(point[1]) < _MOST))


def _of_one_size(series: list[Series]) -> list[Series]:
    """Those that can share an axis with the first: accuracies do with each other, not with a perplexity of 40."""
    if not series:
        return []
    size = series[0].size
    return [some for some in series if 0.1 * size <= some.size <= 10 * size]


def _title(series: Sequence[Series]) -> str:
    """What all the names have in common, else the first of them."""
    if len(series) == 1:
        return series[0].name
    common = _common_words(series)
    return max(common, key=len) if common else series[0].name


def _common_words(series: Sequence[Series]) -> frozenset[str]:
    """The words that all the names have."""
    common = words_of(series[0].name)
    for some in series[1:]:
        common &= words_of(some.name)
    return common - {""}


def _spoken(progress: Progress, panels: Sequence[tuple[str, Sequence[Series]]]) -> str:
    lasts = ", ".join(f"{some.name} {number(some.last)}" for _, series in panels for some in series)
    return f"Training after epoch {progress.epoch}: {lasts or 'no metrics yet'}"


def visible(text: str) -> str:
    """The letters that can be seen: a document with others could not be read, or not even be written."""
    return "".join(letter for letter in text if letter.isprintable())


def _written(text: str) -> str:
    """A job's words as text of an SVG document."""
    return escape(visible(text))


def number(value: float) -> str:
    """Three significant digits, without an exponent where that is short."""
    return f"{value:.3g}" if value == 0 or 1e-3 <= abs(value) < 1e6 else f"{value:.1e}"


def _step(span: float, wanted: int) -> float:
    """A round step, with which `span` takes about `wanted`."""
    power = 10 ** floor(log10(span / wanted))
    return next(nice * power for nice in (1, 2, 5, 10) if nice * power >= span / wanted * 0.999)


def _value_range(series: Sequence[Series]) -> tuple[float, float]:
    """From the least to the largest value and a little more; from 0 where that is near."""
    values = [value for some in series for _, value in some.points]
    low, high = min(values), max(values)
    size = max(abs(low), abs(high))
    if high - low <= 1e-9 * size or size < 1e-12:
        room = 0.1 * size if size > 1e-12 else 1.0
        return low - room, high + room
    room = 0.06 * (high - low)
    return (0 if 0 <= low < 0.35 * high else low - room), high + room


def _value_ticks(low: float, high: float) -> list[float]:
    step = _step(high - low, 4)
    return [n * step for n in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _epoch_ticks(first: int, last: int) -> list[int]:
    step = max(1, round(_step(last - first, 6)))
    inner = list(range(ceil(first / step) * step, last + 1, step))
    return inner if inner and inner[0] - first < step / 2 else [first, *inner]


def _epoch_range(progress: Progress, series: Sequence[Series]) -> tuple[int, int]:
    first = min(some.points[0][0] for some in series)
    last = max(some.points[-1][0] for some in series)
    return first, max(last, progress.epochs or 0, first + 1)


def _broken(progress: Progress, series: Sequence[Series]) -> dict[str, int]:
    """Of the metrics that are NaN now, those that the panel of `series` would show, with the epoch since when."""
    losses = any(is_loss(some.name) for some in series)
    return {name: epoch for name, epoch in not_finite_since(progress).items() if is_loss(name) == losses}


def _nan_mark(broken: dict[str, int], across: Scale, up: Scale) -> Iterator[str]:
    """A line at the epoch in which a metric first was no number; of several, the first."""
    if not broken:
        return
    name, epoch = min(broken.items(), key=lambda each: each[1])
    x = across(epoch)
    anchor, beside = ("start", 6) if x < (across.begin + across.end) / 2 else ("end", -6)
    yield f'<path class="broken" d="M{x:.1f} {up.begin}V{up.end:g}"/>'
    yield (
        f'<text class="broken-text" x="{x + beside:.1f}" y="{(up.begin + up.end) / 2:g}" text-anchor="{anchor}">'
        f"NaN in epoch {epoch}<title>{_written(name)}</title></text>"
    )


def _panel(progress: Progress, title: str, series: Sequence[Series], left: int) -> str:
    first, last = _epoch_range(progress, series)
    low, high = _value_range(series)
    broken = _broken(progress, series)
    labels = _legend_places(series, left)
    last = max([last, *broken.values()])
    across = Scale(first, last, left + _LEFT, left + _PANEL_WIDTH - _RIGHT)
    up = Scale(low, high, _HEIGHT - _BOTTOM, _TOP + labels[-1][2] - _LEGEND)
    return "\n".join(
        [
            f'<text class="title" x="{left + 20}" y="30">{_written(title)}</text>',
            *_legend(labels),
            *_grid(_value_ticks(low, high), across, up),
            *_epoch_axis(_epoch_ticks(first, last), across),
            *_best_mark(progress.best, series, across, up),
            *_nan_mark(broken, across, up),
            *(_line(some, colour, across, up) for some, colour in zip(series, _COLOURS, strict=False)),
            *(_dots(progress.best, some, colour, across, up) for some, colour in zip(series, _COLOURS, strict=False)),
        ]
    )


def _legend_places(series: Sequence[Series], left: int) -> list[tuple[str, float, float]]:
    """(label, x, y) of each line's name; in a further row where the width is used up."""
    places: list[tuple[str, float, float]] = []
    x, y = left + 20.0, float(_LEGEND)
    for some in series:
        name = some.name if len(some.name) <= _LONGEST_NAME else f"{some.name[: _LONGEST_NAME - 1]}…"
        label = f"{name} {number(some.last)}"
        if places and x + 13 + _CHARACTER * len(label) > left + _PANEL_WIDTH:
            x, y = left + 20.0, y + _LEGEND_ROW
        places.append((label, x, y))
        x += 28 + _CHARACTER * len(label)
    return places


def _legend(places: Sequence[tuple[str, float, float]]) -> Iterator[str]:
    """The names beside their colours."""
    for (label, x, y), colour in zip(places, _COLOURS, strict=False):
        yield f'<circle class="f{colour}" cx="{x + 4:g}" cy="{y - 4:g}" r="4"/>'
        yield f'<text x="{x + 13:g}" y="{y:g}">{_written(label)}</text>'


def _grid(values: Sequence[float], across: Scale, up: Scale) -> Iterator[str]:
    for value in values:
        y = up(value)
        yield f'<path class="grid" d="M{across.begin:g} {y:.1f}H{across.end:g}"/>'
        yield f'<text x="{across.begin - 8:g}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>'


def _epoch_axis(epochs: Sequence[int], across: Scale) -> Iterator[str]:
    base = _HEIGHT - _BOTTOM
    yield f'<path class="axis" d="M{across.begin:g} {base}H{across.end:g}"/>'
    for epoch in epochs:
        x = across(epoch)
        yield f'<path class="axis" d="M{x:.1f} {base}v4"/>'
        yield f'<text x="{x:.1f}" y="{base + 18}" text-anchor="middle">{epoch}</text>'
    yield f'<text x="{(across.begin + across.end) / 2:g}" y="{_HEIGHT - 8}" text-anchor="middle">epoch</text>'


def _best_mark(best: Best | None, series: Sequence[Series], across: Scale, up: Scale) -> Iterator[str]:
    if best is None or not any(best.epoch == epoch for some in series for epoch, _ in some.points):
        return
    x = across(best.epoch)
    anchor = "start" if x < (across.begin + across.end) / 2 else "end"
    beside = 6 if anchor == "start" else -6
    yield f'<path class="best" d="M{x:.1f} {up.begin}V{up.end:g}"/>'
    if any(some.name == best.metric for some in series):
        y = up.end + 12 if smaller_is_better(best.metric) else up.begin - 10  # where such a curve is not
        yield (
            f'<text class="best-text" x="{x + beside:.1f}" y="{y:g}" text-anchor="{anchor}">'
            f"best {number(best.value)} in epoch {best.epoch}</text>"
        )


def _line(series: Series, colour: str, across: Scale, up: Scale) -> str:
    path = "L".join(f"{across(epoch):.1f} {up(value):.1f}" for epoch, value in series.points)
    thin = " thin" if len(series.points) > 120 else ""
    return f'<path class="line {colour}{thin}" d="M{path}"/>'


def _dots(best: Best | None, series: Series, colour: str, across: Scale, up: Scale) -> str:
    """Where the line ends, and where it was best."""
    marked = {series.points[-1]}
    if best and best.metric == series.name:
        marked |= {point for point in series.points if point[0] == best.epoch}
    return "".join(
        f'<circle class="ring f{colour}" cx="{across(epoch):.1f}" cy="{up(value):.1f}" r="4.5"/>'
        for epoch, value in sorted(marked)
    )


def _text_panel(series: Series, width: int, height: int) -> list[str]:
    """`height` lines of dots between a title and the epochs. One series, since dots have no colours."""
    low, high = _value_range([series])
    labels = [number(high), number(low)]
    margin = max(map(len, labels))
    columns = width - margin - 1
    first, last = series.points[0][0], series.points[-1][0]
    across, up = Scale(first, last, 0, columns * 2 - 1), Scale(low, high, height * 4 - 1, 0)
    rows = _braille(_joined_dots([(round(across(x)), round(up(y))) for x, y in series.points]), columns, height)
    edge = [labels[0], *[""] * (height - 2), labels[1]]
    return [
        f"{'':{margin}} {series.name} {number(series.last)}"[:width],
        *(f"{label:>{margin}}{'┤' if label else '│'}{row}" for label, row in zip(edge, rows, strict=True)),
        f"{'':{margin}} {first}{f'epoch {last}':>{columns - len(str(first))}}"[:width],
    ]


def _joined_dots(points: Sequence[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """The points and the straight lines between them."""
    yield points[0]
    for (x0, y0), (x1, y1) in pairwise(points):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(1, steps + 1):
            yield round(x0 + (x1 - x0) * step / steps), round(y0 + (y1 - y0) * step / steps)


# The eight dots of a braille character, by column and row.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def _braille(dots: Iterable[tuple[int, int]], columns: int, height: int) -> list[str]:
    cells = [[0x2800] * columns for _ in range(height)]
    for x, y in dots:
        cells[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
    return ["".join(map(chr, row)).replace("\u2800", " ") for row in cells]


def _joined(line: Sequence[str], width: int) -> str:
    return "   ".join(part.ljust(width) for part in line).rstrip()
