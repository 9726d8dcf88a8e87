"""nvidia-ctk config: show config.toml with all its keys, or set some of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .. import schema, settings
from ..errors import RuntimeFault
from . import configure, toml_text

TRUE, FALSE = ("true", "True", "1", "yes"), ("false", "False", "0", "no")
UNSHOWN = {settings.CLI + "no-pivot": False}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verb", nargs="?", choices=("default",))
    parser.add_argument("--config-file", "--config", "-c", default="")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--in-place", "-i", action="store_true")
    parser.add_argument("--output", "-o", default="")


def run(options: argparse.Namespace) -> int:
    path = Path(options.config_file or default_path())
    text = configure.read(path) if options.verb != "default" else ""
    text = changed(text or default_text(), options.set)
    target = path if options.in_place else Path(options.output) if options.output else None
    if target:
        configure.write(target, text)
    else:
        sys.stdout.write(text)
    return 0


def default_path() -> str:
    import os

    return settings.config_path(os.environ)


def default_text() -> str:
    """Every key in order; a key whose value is a default one with nothing to it stands as a comment."""
    tables: dict[str, list[str]] = {}
    for key in sorted(schema.DEFAULTS):
        value = schema.DEFAULTS[key]
        table, _, name = key.rpartition(".")
        if value is None or key in UNSHOWN:
            continue
        commented = value in ("", [], "/dev/null") or key == "swarm-resource"
        shown = "DOCKER_RESOURCE_GPU" if key == "swarm-resource" else value
        shown = "/var/log/" + table + ".log" if name == "debug" else shown
        tables.setdefault(table, []).append(f"{'#' if commented else ''}{name} = {toml_text.literal(shown)}\n")
    parts = [(f"[{table}]\n" if table else "") + "".join(lines) for table, lines in sorted(tables.items())]
    return "\n".join(parts)


def changed(text: str, assignments: list[str]) -> str:
    edit = toml_text.Edit(text)
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if key not in schema.DEFAULTS:
            raise RuntimeFault(f"unknown key {key!r}; `nvidia-ctk config default` lists them")
        path = tuple(key.split("."))
        if value == "nil" and schema.DEFAULTS[key] is None:
            edit.remove(path)
        else:
            edit.set(path, converted(key, value, bool(equals)))
    return edit.text


def converted(key: str, value: str, given: bool) -> Any:
    wanted = schema.OPTIONAL.get(key) or type(schema.DEFAULTS[key])
    if wanted is bool:
        if not given or value in TRUE:
            return True
        if value in FALSE:
            return False
        raise RuntimeFault(f"{key} is true or false, not {value!r}")
    if wanted is list:
        return [item for item in value.replace(",", ":").split(":") if item]
    return value
