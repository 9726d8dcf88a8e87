"""Curves as a picture: an SVG that needs nothing else, with the best epoch marked. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tao_sdk.model.curve import (
    Scale,
    Series,
    broken_metrics,
    format_number,
    panels_of,
    value_range,
)
from tao_sdk.model.metric_names import is_loss, smaller_is_better
from tao_sdk.model.progress import Progress, not_finite_since
from tao_sdk.model.svg_parts import (
    BOTTOM,
    COLOURS,
    LEFT,
    PANEL_HEIGHT,
    PANEL_WIDTH,
    RIGHT,
    TOP,
    count_ticks,
    draw_axis,
    draw_grid,
    svg_document,
    svg_text,
    value_ticks,
)

_NAMES_WIDTH, _NAME_HEIGHT = 400, 18  # beside a plot that compares jobs
_DASHES = ("none", "7 4", "2 4", "12 4 2 4")
COMPARISON_MARK = "<!-- tao compare -->"  # tells our picture from a file of somebody else

_LEGEND, _LEGEND_ROW = 50, 16  # the first row of names, and the distance to the next
_CHARACTER, _LONGEST_NAME = 6.6, 40  # its width, and the most of a name that is shown


def curve_svg(progress: Progress) -> str:
    """Draw the curves as a whole SVG document, which follows the light or dark of where it is
    shown.
    """
    panels = panels_of(progress)
    width = PANEL_WIDTH * max(len(panels), 1)
    drawn = [
        _draw_panel(progress, title, some, PANEL_WIDTH * number)
        for number, (title, some) in enumerate(panels)
    ]
    none = "; ".join(broken_metrics(progress)) or "No epoch has ended yet."
    middle = f'x="{width / 2:g}" y="{PANEL_HEIGHT / 2:g}" text-anchor="middle"'
    nothing = f"<text {middle}>{svg_text(none)}</text>"
    return svg_document(width, PANEL_HEIGHT, _describe_curves(progress, panels), drawn or [nothing])


def comparison_svg(title: str, lines: Sequence[Series], unit: str = "epoch") -> str:
    """Draw one line per job over the epochs or steps, with its name beside the plot, as a whole SVG
    document.
    """
    height = max(PANEL_HEIGHT, TOP + _NAME_HEIGHT * len(lines))
    width = PANEL_WIDTH + _NAMES_WIDTH
    first = min(some.points[0][0] for some in lines)
    last = max(first + 1, *(some.points[-1][0] for some in lines))
    low, high = value_range(lines)
    across = Scale(first, last, LEFT, PANEL_WIDTH - RIGHT)
    up = Scale(low, high, PANEL_HEIGHT - BOTTOM, TOP)
    body = [
        f'<text class="title" x="20" y="30">{svg_text(title)}</text>',
        *draw_grid(value_ticks(low, high), across, up),
        *draw_axis(count_ticks(first, last), across, up, unit),
        *(_draw_named_line(some, place, across, up) for place, some in enumerate(lines)),
    ]
    label = f"{title} of {len(lines)} jobs"
    return svg_document(width, height, label, body, COMPARISON_MARK)


def _draw_named_line(series: Series, place: int, across: Scale, up: Scale) -> str:
    """Draw a job's line, and its name in the column beside the plot. Beyond four jobs, the dashes
    tell one from another.
    """
    colour, dashes = COLOURS[place % 4], _DASHES[place // 4 % len(_DASHES)]
    y = TOP + _NAME_HEIGHT * place
    sample = f'<path class="line {colour}" d="M{PANEL_WIDTH} {y - 4}h24"/>'
    return (
        f'<g stroke-dasharray="{dashes}">{_draw_line(series, colour, across, up)}{sample}</g>'
        f'<text x="{PANEL_WIDTH + 32}" y="{y}">{svg_text(series.name)}</text>'
    )


def _describe_curves(progress: Progress, panels: Sequence[tuple[str, Sequence[Series]]]) -> str:
    lasts = ", ".join(
        f"{some.name} {format_number(some.last)}" for _, series in panels for some in series
    )
    newest = progress.epoch if progress.number is None else progress.number
    return f"Training after {progress.unit} {newest}: {lasts or 'no metrics yet'}"


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
        f"NaN in {unit} {epoch}<title>{svg_text(name)}</title></text>"
    )


def _draw_panel(progress: Progress, title: str, series: Sequence[Series], left: int) -> str:
    first, last = _epoch_range(progress, series)
    low, high = value_range(series)
    broken = _broken_in_panel(progress, series)
    labels = _legend_places(series, left)
    last = max([last, *broken.values()])
    across = Scale(first, last, left + LEFT, left + PANEL_WIDTH - RIGHT)
    up = Scale(low, high, PANEL_HEIGHT - BOTTOM, TOP + labels[-1][2] - _LEGEND)
    return "\n".join(
        [
            f'<text class="title" x="{left + 20}" y="30">{svg_text(title)}</text>',
            *_draw_legend(labels),
            *draw_grid(value_ticks(low, high), across, up),
            *draw_axis(count_ticks(first, last), across, up, progress.unit),
            *_draw_best_mark(progress, series, across, up),
            *_draw_nan_mark(broken, across, up, progress.unit),
            *(
                _draw_line(some, colour, across, up)
                for some, colour in zip(series, COLOURS, strict=False)
            ),
            *(
                _draw_dots(progress, some, colour, across, up)
                for some, colour in zip(series, COLOURS, strict=False)
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
        if places and x + 13 + _CHARACTER * len(label) > left + PANEL_WIDTH:
            x, y = left + 20.0, y + _LEGEND_ROW
        places.append((label, x, y))
        x += 28 + _CHARACTER * len(label)
    return places


def _draw_legend(places: Sequence[tuple[str, float, float]]) -> Iterator[str]:
    """Draw the names beside their colours."""
    for (label, x, y), colour in zip(places, COLOURS, strict=False):
        yield f'<circle class="f{colour}" cx="{x + 4:g}" cy="{y - 4:g}" r="4"/>'
        yield f'<text x="{x + 13:g}" y="{y:g}">{svg_text(label)}</text>'


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
