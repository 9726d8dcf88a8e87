"""Curves as a picture: an SVG that needs nothing else, with the best epoch marked. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from tao_sdk.model.curve import (
    Scale,
    Series,
    broken_metrics,
    format_number,
    panels_of,
    value_range,
    visible_text,
)
from tao_sdk.model.metric_names import is_loss, smaller_is_better
from tao_sdk.model.progress import Progress, not_finite_since

_PANEL_WIDTH, _HEIGHT = 400, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 20, 66, 40  # of the plot within its panel
_NAMES_WIDTH, _NAME_HEIGHT = 400, 18  # beside a plot that compares jobs
_DASHES = ("none", "7 4", "2 4", "12 4 2 4")
COMPARISON_MARK = "<!-- tao compare -->"  # tells our picture from a file of somebody else

_LEGEND, _LEGEND_ROW = 50, 16  # the first row of names, and the distance to the next
_CHARACTER, _LONGEST_NAME = 6.6, 40  # its width, and the most of a name that is shown

_STYLE = """
  .card { fill: #ffffff; stroke: #e4e7ec }
  text {
    font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
    fill: #667085
  }
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


def curve_svg(progress: Progress) -> str:
    """Draw the curves as a whole SVG document, which follows the light or dark of where it is
    shown.
    """
    panels = panels_of(progress)
    width = _PANEL_WIDTH * max(len(panels), 1)
    drawn = [
        _draw_panel(progress, title, some, _PANEL_WIDTH * number)
        for number, (title, some) in enumerate(panels)
    ]
    none = "; ".join(broken_metrics(progress)) or "No epoch has ended yet."
    nothing = (
        f'<text x="{width / 2:g}" y="{_HEIGHT / 2:g}" text-anchor="middle">{_svg_text(none)}</text>'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT}"'
            f' width="{width}" height="{_HEIGHT}"'
            f' role="img" aria-label="{_svg_text(_describe_curves(progress, panels))}">',
            f"<style>{_STYLE}@media (prefers-color-scheme: dark) {{{_DARK}}}</style>",
            (
                f'<rect class="card" x=".5" y=".5" width="{width - 1}" '
                f'height="{_HEIGHT - 1}" rx="10"/>'
            ),
            *(drawn or [nothing]),
            "</svg>\n",
        ]
    )


def comparison_svg(title: str, lines: Sequence[Series], unit: str = "epoch") -> str:
    """Draw one line per job over the epochs or steps, with its name beside the plot, as a whole SVG
    document.
    """
    height = max(_HEIGHT, _TOP + _NAME_HEIGHT * len(lines))
    width = _PANEL_WIDTH + _NAMES_WIDTH
    first = min(some.points[0][0] for some in lines)
    last = max(first + 1, *(some.points[-1][0] for some in lines))
    low, high = value_range(lines)
    across = Scale(first, last, _LEFT, _PANEL_WIDTH - _RIGHT)
    up = Scale(low, high, _HEIGHT - _BOTTOM, _TOP)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}"'
            f' role="img" aria-label="{_svg_text(f"{title} of {len(lines)} jobs")}">',
            COMPARISON_MARK,
            f"<style>{_STYLE}@media (prefers-color-scheme: dark) {{{_DARK}}}</style>",
            f'<rect class="card" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10"/>',
            f'<text class="title" x="20" y="30">{_svg_text(title)}</text>',
            *_draw_grid(_value_ticks(low, high), across, up),
            *_draw_axis(_epoch_ticks(first, last), across, unit),
            *(_draw_named_line(some, place, across, up) for place, some in enumerate(lines)),
            "</svg>\n",
        ]
    )


def _draw_named_line(series: Series, place: int, across: Scale, up: Scale) -> str:
    """Draw a job's line, and its name in the column beside the plot. Beyond four jobs, the dashes
    tell one from another.
    """
    colour, dashes = _COLOURS[place % 4], _DASHES[place // 4 % len(_DASHES)]
    y = _TOP + _NAME_HEIGHT * place
    sample = f'<path class="line {colour}" d="M{_PANEL_WIDTH} {y - 4}h24"/>'
    return (
        f'<g stroke-dasharray="{dashes}">{_draw_line(series, colour, across, up)}{sample}</g>'
        f'<text x="{_PANEL_WIDTH + 32}" y="{y}">{_svg_text(series.name)}</text>'
    )


def _describe_curves(progress: Progress, panels: Sequence[tuple[str, Sequence[Series]]]) -> str:
    lasts = ", ".join(
        f"{some.name} {format_number(some.last)}" for _, series in panels for some in series
    )
    newest = progress.epoch if progress.number is None else progress.number
    return f"Training after {progress.unit} {newest}: {lasts or 'no metrics yet'}"


def _svg_text(text: str) -> str:
    """Escape a job's words for an SVG document."""
    return escape(visible_text(text))


def _value_ticks(low: float, high: float) -> list[float]:
    step = _round_step(high - low, 4)
    return [n * step for n in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _epoch_ticks(first: int, last: int) -> list[int]:
    step = max(1, round(_round_step(last - first, 6)))
    inner = list(range(ceil(first / step) * step, last + 1, step))
    if inner and inner[0] - first < step / 2:
        return inner
    return [first, *inner]


def _round_step(span: float, wanted: int) -> float:
    """A round step that divides `span` into about `wanted` parts."""
    power = 10 ** floor(log10(span / wanted))
    return next(nice * power for nice in (1, 2, 5, 10) if nice * power >= span / wanted * 0.999)


def _epoch_range(progress: Progress, series: Sequence[Series]) -> tuple[int, int]:
    first = min(some.points[0][0] for some in series)
    last = max(some.points[-1][0] for some in series)
    return first, max(last, _last_number(progress), first + 1)


def _last_number(progress: Progress) -> int:
    """The last epoch or step of the training, as the job calls it; 0 if that is not known."""
    if progress.unit == "step":
        return progress.steps or 0
    if not progress.epochs:
        return 0
    return progress.shown_epoch(progress.epochs)


def _broken_in_panel(progress: Progress, series: Sequence[Series]) -> dict[str, int]:
    """The metrics that were NaN and that the panel of `series` would show, with the first such
    epoch.
    """
    losses = any(is_loss(some.name) for some in series)
    return {
        name: epoch for name, epoch in not_finite_since(progress).items() if is_loss(name) == losses
    }


def _draw_nan_mark(broken: dict[str, int], across: Scale, up: Scale, unit: str) -> Iterator[str]:
    """Draw a line at the first epoch or step in which a metric was NaN or infinite."""
    if not broken:
        return
    name, epoch = min(broken.items(), key=lambda each: each[1])
    x = across(epoch)
    anchor, beside = ("start", 6) if x < (across.begin + across.end) / 2 else ("end", -6)
    yield f'<path class="broken" d="M{x:.1f} {up.begin}V{up.end:g}"/>'
    yield (
        f'<text class="broken-text" x="{x + beside:.1f}" y="{(up.begin + up.end) / 2:g}"'
        f' text-anchor="{anchor}">'
        f"NaN in {unit} {epoch}<title>{_svg_text(name)}</title></text>"
    )


def _draw_panel(progress: Progress, title: str, series: Sequence[Series], left: int) -> str:
    first, last = _epoch_range(progress, series)
    low, high = value_range(series)
    broken = _broken_in_panel(progress, series)
    labels = _legend_places(series, left)
    last = max([last, *broken.values()])
    across = Scale(first, last, left + _LEFT, left + _PANEL_WIDTH - _RIGHT)
    up = Scale(low, high, _HEIGHT - _BOTTOM, _TOP + labels[-1][2] - _LEGEND)
    return "\n".join(
        [
            f'<text class="title" x="{left + 20}" y="30">{_svg_text(title)}</text>',
            *_draw_legend(labels),
            *_draw_grid(_value_ticks(low, high), across, up),
            *_draw_axis(_epoch_ticks(first, last), across, progress.unit),
            *_draw_best_mark(progress, series, across, up),
            *_draw_nan_mark(broken, across, up, progress.unit),
            *(
                _draw_line(some, colour, across, up)
                for some, colour in zip(series, _COLOURS, strict=False)
            ),
            *(
                _draw_dots(progress, some, colour, across, up)
                for some, colour in zip(series, _COLOURS, strict=False)
            ),
        ]
    )


def _legend_places(series: Sequence[Series], left: int) -> list[tuple[str, float, float]]:
    """Return (label, x, y) of each line's name. A new row begins where the width is used up."""
    places: list[tuple[str, float, float]] = []
    x, y = left + 20.0, float(_LEGEND)
    for some in series:
        name = (
            some.name if len(some.name) <= _LONGEST_NAME else f"{some.name[: _LONGEST_NAME - 1]}…"
        )
        label = f"{name} {format_number(some.last)}"
        if places and x + 13 + _CHARACTER * len(label) > left + _PANEL_WIDTH:
            x, y = left + 20.0, y + _LEGEND_ROW
        places.append((label, x, y))
        x += 28 + _CHARACTER * len(label)
    return places


def _draw_legend(places: Sequence[tuple[str, float, float]]) -> Iterator[str]:
    """Draw the names beside their colours."""
    for (label, x, y), colour in zip(places, _COLOURS, strict=False):
        yield f'<circle class="f{colour}" cx="{x + 4:g}" cy="{y - 4:g}" r="4"/>'
        yield f'<text x="{x + 13:g}" y="{y:g}">{_svg_text(label)}</text>'


def _draw_grid(values: Sequence[float], across: Scale, up: Scale) -> Iterator[str]:
    for value in values:
        y = up(value)
        yield f'<path class="grid" d="M{across.begin:g} {y:.1f}H{across.end:g}"/>'
        yield (
            f'<text x="{across.begin - 8:g}" y="{y + 4:.1f}" '
            f'text-anchor="end">{format_number(value)}</text>'
        )


def _draw_axis(epochs: Sequence[int], across: Scale, unit: str) -> Iterator[str]:
    base = _HEIGHT - _BOTTOM
    yield f'<path class="axis" d="M{across.begin:g} {base}H{across.end:g}"/>'
    for epoch in epochs:
        x = across(epoch)
        yield f'<path class="axis" d="M{x:.1f} {base}v4"/>'
        yield f'<text x="{x:.1f}" y="{base + 18}" text-anchor="middle">{epoch}</text>'
    yield (
        f'<text x="{(across.begin + across.end) / 2:g}" y="{_HEIGHT - 8}" '
        f'text-anchor="middle">{unit}</text>'
    )


def _draw_best_mark(
    progress: Progress, series: Sequence[Series], across: Scale, up: Scale
) -> Iterator[str]:
    best = progress.best
    if best is None:
        return
    place = progress.shown_number(best)
    if not any(place == epoch for some in series for epoch, _ in some.points):
        return
    x = across(place)
    anchor, beside = ("start", 6) if x < (across.begin + across.end) / 2 else ("end", -6)
    yield f'<path class="best" d="M{x:.1f} {up.begin}V{up.end:g}"/>'
    if any(some.name == best.metric for some in series):
        # the text stands away from such a curve
        y = up.end + 12 if smaller_is_better(best.metric) else up.begin - 10
        yield (
            f'<text class="best-text" x="{x + beside:.1f}" y="{y:g}" text-anchor="{anchor}">'
            f"best {format_number(best.value)} in {progress.unit} {place}</text>"
        )


def _draw_line(series: Series, colour: str, across: Scale, up: Scale) -> str:
    path = "L".join(f"{across(epoch):.1f} {up(value):.1f}" for epoch, value in series.points)
    thin = " thin" if len(series.points) > 120 else ""
    return f'<path class="line {colour}{thin}" d="M{path}"/>'


def _draw_dots(progress: Progress, series: Series, colour: str, across: Scale, up: Scale) -> str:
    """Draw dots at the end of the line and at its best value."""
    marked = {series.points[-1]}
    best = progress.best
    if best and best.metric == series.name:
        place = progress.shown_number(best)
        marked |= {point for point in series.points if point[0] == place}
    return "".join(
        f'<circle class="ring f{colour}" cx="{across(epoch):.1f}" cy="{up(value):.1f}" r="4.5"/>'
        for epoch, value in sorted(marked)
    )
