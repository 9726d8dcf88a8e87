"""Printable text: other people's words without control characters."""

from __future__ import annotations

import re

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07?")


def printable(line: str) -> str:
    """The text as one line, without escape sequences and characters that cannot be seen.

    Job names, metrics, file names and other people's words go through it before they are printed.
    """
    plain = ESCAPES.sub("", line).replace("\t", "    ").replace("\n", " ")
    return "".join(letter for letter in plain if letter.isprintable())
