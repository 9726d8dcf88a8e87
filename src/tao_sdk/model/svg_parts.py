"""Parts of a picture: the SVG document that follows light and dark, its words, grid and axis. Pure.

Not here: what is drawn on them (model/curve_svg.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from tao_sdk.model.curve import Scale, format_number, visible_text

PANEL_WIDTH, PANEL_HEIGHT = 400, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 20, 66, 40  # of the plot within its panel
COLOURS = "abcd"
Ticks = Sequence[tuple[float, str]]  # a value and its words

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


def svg_document(width: int, height: int, label: str, body: Sequence[str], mark: str = "") -> str:
    """A whole document with a card behind `body`. `label` says what it shows; `mark` is a comment
    by which it is known again.
    """
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}"'
            f' role="img" aria-label="{svg_text(label)}">',
            *([mark] if mark else []),
            f"<style>{_STYLE}@media (prefers-color-scheme: dark) {{{_DARK}}}</style>",
            f'<rect class="card" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10"/>',
            *body,
            "</svg>\n",
        ]
    )


def svg_text(text: str) -> str:
    """Escape somebody's words for an SVG document."""
    return escape(visible_text(text))


def value_ticks(low: float, high: float) -> list[float]:
    """Round values from `low` to `high`, about four."""
    step = round_step(high - low, 4)
    return [n * step for n in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def count_ticks(first: int, last: int) -> list[tuple[float, str]]:
    """Whole numbers from `first` to `last`, about six; the first one always."""
    step = max(1, round(round_step(last - first, 6)))
    inner = list(range(ceil(first / step) * step, last + 1, step))
    if not inner or inner[0] - first >= step / 2:
        inner = [first, *inner]
    return [(number, str(number)) for number in inner]


def round_step(span: float, wanted: int) -> float:
    """A round step that divides `span` into about `wanted` parts."""
    power = 10 ** floor(log10(span / wanted))
    return next(nice * power for nice in (1, 2, 5, 10) if nice * power >= span / wanted * 0.999)


def draw_grid(values: Sequence[float], across: Scale, up: Scale) -> Iterator[str]:
    """Draw a line across at each value, with the value beside it."""
    for value in values:
        y = up(value)
        yield f'<path class="grid" d="M{across.begin:g} {y:.1f}H{across.end:g}"/>'
        yield (
            f'<text x="{across.begin - 8:g}" y="{y + 4:.1f}" '
            f'text-anchor="end">{format_number(value)}</text>'
        )


def draw_axis(ticks: Ticks, across: Scale, up: Scale, title: str) -> Iterator[str]:
    """Draw the line below the plot, with `title` below its ticks."""
    base = up.begin
    yield f'<path class="axis" d="M{across.begin:g} {base:g}H{across.end:g}"/>'
    for value, words in ticks:
        x = across(value)
        yield f'<path class="axis" d="M{x:.1f} {base:g}v4"/>'
        yield f'<text x="{x:.1f}" y="{base + 18:g}" text-anchor="middle">{svg_text(words)}</text>'
    yield (
        f'<text x="{(across.begin + across.end) / 2:g}" y="{base + 32:g}" '
        f'text-anchor="middle">{svg_text(title)}</text>'
    )
