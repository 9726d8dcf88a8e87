"""shellcheck: what it has to say of shell text, as `file:line: words`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from support.servers import debian

PACKAGES = {"shellcheck": "shellcheck"}


def complaints(paths: Iterable[Path]) -> list[str]:
    return checked([str(path) for path in paths])


def complaints_of_text(text: str, shell: str = "sh", only: str = "") -> list[str]:
    """`only`: codes such as SC2154, divided by commas; all of them without it."""
    return checked([f"--shell={shell}", *([f"--include={only}"] if only else []), "-"], text)


def checked(words: list[str], text: str = "") -> list[str]:
    debian.need("shell text", PACKAGES)
    done = subprocess.run(
        ["shellcheck", "--format=gcc", *words], input=text, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()
