"""Styled lines: texts with a style each, cut to the width of a screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[str, str]  # text, style
Line = list[Span]


def text_of(line: Iterable[Span]) -> str:
    return "".join(text for text, _ in line)


def line_length(line: Line) -> int:
    return len(text_of(line))


def join_lines(lines: Sequence[Line]) -> Line:
    """The lines as one."""
    return [span for line in lines for span in line]


def fit_line(line: Line, width: int) -> Line:
    """The line, cut at the edge of the screen."""
    room, fitted = width, list[Span]()
    for text, style in line:
        fitted.append((cut_at(text, room), style))
        room -= len(text)
        if room <= 0:
            break
    return fitted


def cut_at(text: str, room: int) -> str:
    """The text, cut to the room for it, with a sign that it was cut."""
    if len(text) <= room:
        return text
    if room > 0:
        return text[: room - 1] + "…"
    return ""
