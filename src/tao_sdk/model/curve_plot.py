"""Curves in the terminal: a plot of braille dots. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from tao_sdk.model.curve import Scale, Series, broken_metrics, format_number, panels_of, value_range
from tao_sdk.model.progress import Progress

# The eight dots of a braille character, by column and row.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def curve_text(progress: Progress, width: int = 80, height: int = 6) -> list[str]:
    """Draw the curves in lines of at most `width` characters: panels side by side if there is room,
    else one above another.
    """
    panels = panels_of(progress)
    beside = len(panels) if width >= 36 * len(panels) else 1
    each = (width - 3 * (beside - 1)) // max(beside, 1)
    first_lines = [series[0] for _, series in panels] if each >= 16 else []
    blocks = [panel_text(series, progress.unit, each, height) for series in first_lines]
    rows = [blocks[start : start + beside] for start in range(0, len(blocks), max(beside, 1))]
    drawn = [_join_blocks(line, each) for row in rows for line in zip(*row, strict=True)]
    return [*drawn, *(line[:width] for line in broken_metrics(progress))]


def panel_text(series: Series, unit: str, width: int, height: int) -> list[str]:
    """Draw `height` lines of dots between a title and the epochs or steps. Draws one series,
    because dots have no colours.
    """
    low, high = value_range([series])
    labels = [format_number(high), format_number(low)]
    margin = max(map(len, labels))
    columns = width - margin - 1
    first, last = series.points[0][0], series.points[-1][0]
    across, up = Scale(first, last, 0, columns * 2 - 1), Scale(low, high, height * 4 - 1, 0)
    rows = _braille_rows(
        _joined_dots([(round(across(x)), round(up(y))) for x, y in series.points]), columns, height
    )
    edge = [labels[0], *[""] * (height - 2), labels[1]]
    return [
        f"{'':{margin}} {series.name} {format_number(series.last)}"[:width],
        *(
            f"{label:>{margin}}{'┤' if label else '│'}{row}"
            for label, row in zip(edge, rows, strict=True)
        ),
        f"{'':{margin}} {first}{f'{unit} {last}':>{columns - len(str(first))}}"[:width],
    ]


def _joined_dots(points: Sequence[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """The points and the straight lines between them."""
    yield points[0]
    for (x0, y0), (x1, y1) in pairwise(points):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(1, steps + 1):
            yield round(x0 + (x1 - x0) * step / steps), round(y0 + (y1 - y0) * step / steps)


def _braille_rows(dots: Iterable[tuple[int, int]], columns: int, height: int) -> list[str]:
    cells = [[0x2800] * columns for _ in range(height)]
    for x, y in dots:
        cells[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
    return ["".join(map(chr, row)).replace("\u2800", " ") for row in cells]


def _join_blocks(line: Sequence[str], width: int) -> str:
    return "   ".join(part.ljust(width) for part in line).rstrip()
