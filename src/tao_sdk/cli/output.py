"""Output: the streams of a verb: JSON for programs, text for people, colour if the terminal shows
it.

Here: the streams and their abilities. Not here: what a job looks like (show.py) and the screen of a
running one (screen.py).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO, cast

import click

from tao_sdk.model.printable import printable

COLORS: Mapping[str, str] = {
    "Complete": "green", "Running": "cyan", "Pending": "yellow", "Paused": "yellow", "Error": "red",
    "Canceled": "magenta", "ok": "green", "warning": "yellow", "error": "red",
}  # fmt: skip


class Output:
    """stdout and stderr of one run of the command."""

    def __init__(self, as_json: bool = False, as_lines: bool = False) -> None:
        self.json = as_json
        self.as_lines = as_lines  # JSON as an object a line, also for a list
        self.color = has_color(sys.stdout)

    @property
    def terminal(self) -> bool:
        return sys.stdout.isatty() and not self.json

    @property
    def screen(self) -> bool:
        """True if lines can be drawn over, with bars and curves in them."""
        if not self.terminal or is_dumb_terminal():
            return False
        return is_unicode(sys.stdout.encoding)

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None if lines may have any length."""
        if not self.terminal:
            return None
        return shutil.get_terminal_size((80, 24)).columns

    def line(self, text: str = "") -> None:
        """Print a line for people; nothing with --json. A terminal obeys only the codes that
        `paint` has put into `text`.
        """
        if not self.json:
            print(with_styles(spell_signs(printable(text), sys.stdout.encoding)), flush=True)

    def clear_line_above(self) -> None:
        """On a screen: let the next line replace the last one."""
        print("\x1b[1A\x1b[2K", end="", flush=True)

    def lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.line(line)

    def note(self, text: str) -> None:
        """Print a line beside the result, on stderr, for people. All of it is dim, whatever `paint`
        has put there.
        """
        if self.json or not text:
            return
        text = printable(STYLE_MARKS.sub("", text))
        if sys.stderr.isatty():
            text = textwrap.fill(text, shutil.get_terminal_size((80, 24)).columns)
        if has_color(sys.stderr):
            text = click.style(text, dim=True)
        print(text, file=sys.stderr, flush=True)

    def aside(self, text: str, value: Any) -> None:
        """Print a note that is not a result: a line on stderr, with --json an object there."""
        if self.json:
            print(json.dumps(value), file=sys.stderr, flush=True)
        else:
            self.note(text)

    def object(self, value: Any) -> None:
        """Print the one JSON value of a command; with --jsonl the items of a list, a line each.

        Nothing without these flags.
        """
        if self.as_lines:
            self.json_lines(value)
        elif self.json:
            print(json.dumps(value, indent=2), flush=True)

    def json_lines(self, value: Any) -> None:
        """Print the items of a list, a line each, or the one value."""
        items = cast("list[Any]", value) if isinstance(value, list) else [value]
        for item in items:
            self.json_line(item)

    def json_line(self, value: Any) -> None:
        """Print one of a command's JSON values, as one line."""
        if self.json:
            print(json.dumps(value), flush=True)

    def bytes(self, data: bytes) -> None:
        """Print a job's own bytes, unchanged."""
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def paint(
        self, text: str, color: str | None = None, bold: bool = False, dim: bool = False
    ) -> str:
        """The text with a style, for `line` to print."""
        if self.color:
            return marked(text, color, bold, dim)
        return text

    def status(self, word: str) -> str:
        return self.paint(word, COLORS.get(word))

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print columns as wide as they need to be. On a terminal the last one is cut at its
        edge.
        """
        cells = [[printable(cell) for cell in row] for row in (head, *rows)]
        for line in table_lines(cells, self.width):
            self.line(self._with_colors(line))

    def _with_colors(self, line: str) -> str:
        word = next((word for word in line.split() if word in COLORS), "")
        if word:
            return line.replace(word, self.status(word), 1)
        return line


def stderr_line(text: str) -> None:
    """Print a line on stderr. A terminal obeys only the codes that `marked` has put into `text`."""
    print(with_styles(printable(text)), file=sys.stderr, flush=True)


# Replacements for our signs if the terminal's encoding lacks them.
SPELLED = str.maketrans({"▸": ">", "✓": "+", "✗": "x", "■": "#", "·": "-", "…": "~"})


def spell_signs(text: str, encoding: str) -> str:
    """The text with signs that the terminal can show."""
    if is_unicode(encoding):
        return text
    return text.translate(SPELLED)


def is_unicode(encoding: str) -> bool:
    return "utf" in encoding.lower()


def is_dumb_terminal() -> bool:
    return os.environ.get("TERM") == "dumb"


# Stands for an escape code until a line is printed. It is drawn anew for each run, so no text from
# elsewhere can hold it.
STYLE_KEY = os.urandom(8).hex()
STYLE_MARKS = re.compile(rf"<{STYLE_KEY} ([0-9;]*)>")


def style_mark(codes: str) -> str:
    """Escape codes of colours and weights (`ESC[1m`), in a form that `printable` leaves alone."""
    return "".join(f"<{STYLE_KEY} {numbers}>" for numbers in re.findall(r"\x1b\[([0-9;]*)m", codes))


def marked(text: str, color: str | None = None, bold: bool = False, dim: bool = False) -> str:
    """The text with a style, in a form that `printable` leaves alone."""
    styled = click.style("\n", fg=color, bold=bold or None, dim=dim or None)
    before, _, after = styled.partition("\n")
    return f"{style_mark(before)}{text}{style_mark(after)}"


def with_styles(line: str) -> str:
    return STYLE_MARKS.sub("\x1b[\\1m", line)


def has_color(stream: TextIO) -> bool:
    """True if escape codes may be used: only on terminals, and not if NO_COLOR is set."""
    if os.environ.get("NO_COLOR") or is_dumb_terminal():
        return False
    return stream.isatty()


def table_lines(rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """The rows as lines, each column as wide as its longest cell."""
    columns = zip(*rows, strict=True)
    widths = [max(map(len, column)) for column in columns]
    return [cut(table_line(row, widths), width) for row in rows]


def table_line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=True)]
    return "  ".join(cells).rstrip()


def cut(line: str, width: int | None) -> str:
    if width is None or len(line) <= width:
        return line
    return line[: max(width - 1, 0)] + "…"
