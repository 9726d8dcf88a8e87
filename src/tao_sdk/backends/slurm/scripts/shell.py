"""Shell: how a script for the cluster is put together, from variables and functions written here
and the files here.

Each file is checked by shellcheck; its head, up to the first empty line, says which variables and
functions it wants. Here: quoting them. Not here: which ones a script needs (handover.py,
job_scripts.py and the others that send one).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SCRIPTS = Path(__file__).parent


@cache
def script(name: str) -> str:
    """scripts/NAME.sh as it is sent: without its head and the words for shellcheck."""
    _, _, body = (SCRIPTS / f"{name}.sh").read_text(encoding="utf-8").partition("\n\n")
    return "\n".join(
        line for line in body.splitlines() if not line.lstrip().startswith("# shellcheck ")
    )


def variables(values: Mapping[str, str]) -> str:
    """One assignment a line. Every value is taken literally."""
    return "\n".join(f"{name}={shlex.quote(value)}" for name, value in values.items())


def exports(values: Mapping[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())


def function(name: str, body: str) -> str:
    """A function of shell text that was quoted already. It may be empty."""
    return f"{name}() {{\n{body.rstrip() or ':'}\n}}"


def joined(*parts: str) -> str:
    """A script of all parts, in this order."""
    return "\n".join(part.rstrip("\n") for part in parts if part) + "\n"
