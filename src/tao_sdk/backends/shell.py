"""Shell: builds a script from quoted variables, functions and .sh files of a backend's folder.

Shellcheck checks each file. The head of a file, up to the first empty line, names the variables and
functions that it needs. Not here: their values, and the files themselves (each backend's
`scripts/`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SHARED_SCRIPTS = Path(__file__).with_name("scripts")  # scripts that several backends use


@cache
def load_script(folder: Path, name: str) -> str:
    """FOLDER/NAME.sh without its head and its directives for shellcheck."""
    _, _, body = (folder / f"{name}.sh").read_text(encoding="utf-8").partition("\n\n")
    return "\n".join(
        line for line in body.splitlines() if not line.lstrip().startswith("# shellcheck ")
    )


def assign_variables(values: Mapping[str, str]) -> str:
    """Shell text that sets variables, one a line. Every value is taken literally."""
    return "\n".join(f"{name}={shlex.quote(value)}" for name, value in values.items())


def export_variables(values: Mapping[str, str]) -> str:
    """Shell text that sets and exports variables, one a line."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())


def define_function(name: str, body: str) -> str:
    """Shell text that defines a function. `body` is shell text, and may be empty."""
    return f"{name}() {{\n{body.rstrip() or ':'}\n}}"


def join_parts(*parts: str) -> str:
    """One script of all parts, in this order."""
    return "\n".join(part.rstrip("\n") for part in parts if part) + "\n"
