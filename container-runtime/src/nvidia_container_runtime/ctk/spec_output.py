"""Writing a CDI spec: to a file in the format that its name says, or to standard output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from . import configure

FORMATS = {".json": "json", ".yaml": "yaml"}


def write(spec: dict[str, Any], output: str, form: str) -> None:
    """`form` is the format where the name says none. CDI reads no file without one of the endings,
    so it is added.
    """
    if output in ("", "-"):
        sys.stdout.write(text_of(spec, form))
        return
    path = Path(output)
    if path.suffix not in FORMATS:
        path = path.with_name(f"{path.name}.{form}")
    configure.write(path, text_of(spec, FORMATS[path.suffix]))


def text_of(spec: dict[str, Any], form: str) -> str:
    return json.dumps(spec, indent=2) + "\n" if form == "json" else "---\n" + as_yaml(spec)


def as_yaml(value: Any, indent: str = "") -> str:
    """Block style, every string in JSON's quotes, which YAML reads alike."""
    if isinstance(value, dict):
        return "".join(f"{indent}{key}:{under(one, indent + '  ')}" for key, one in value.items())
    return "".join(f"{indent}-{first_line(one, indent + '  ')}" for one in value)


def under(value: Any, indent: str) -> str:
    if isinstance(value, (dict, list)) and value:
        return "\n" + as_yaml(value, indent)
    return f" {json.dumps(value)}\n"


def first_line(value: Any, indent: str) -> str:
    if isinstance(value, (dict, list)) and value:
        return " " + as_yaml(value, indent)[len(indent) :]
    return f" {json.dumps(value)}\n"
