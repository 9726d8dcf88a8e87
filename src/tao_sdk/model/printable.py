"""Printable text: other people's words without what a terminal would obey."""

from __future__ import annotations

import re

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07?")


def printable(line: str) -> str:
    """One line of text without what would move the cursor, colour the screen or turn the text
    around.

    Whatever is printed for people goes through it on its way out: job's names, metrics, files and
    other people's words.
    """
    plain = ESCAPES.sub("", line).replace("\t", "    ").replace("\n", " ")
    return "".join(letter for letter in plain if letter.isprintable())
