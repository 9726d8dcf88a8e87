"""nvidia-ctk config: show config.toml with all its keys, or set some of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .. import schema, settings
from ..errors import RuntimeFault
from ..sections import CLI, RUNTIME
from . import configure, toml_text

TRUE, FALSE = ("true", "True", "1", "yes"), ("false", "False", "0", "no")
UNSHOWN = (CLI + "no-pivot", RUNTIME + "modes.csv.compat-container-root")
# Keys that a new file has as comments, with what somebody would set them to.
COMMENTED: dict[str, Any] = {
    "accept-nvidia-visible-devices-as-volume-mounts": False,
    "accept-nvidia-visible-devices-envvar-when-unprivileged": True,
    "swarm-resource": "DOCKER_RESOURCE_GPU",
    CLI + "debug": "/var/log/nvidia-container-toolkit.log",
    CLI + "ldcache": "/etc/ld.so.cache",
    CLI + "no-cgroups": False,
    CLI + "path": "/usr/bin/nvidia-container-cli",
    CLI + "root": "/run/nvidia/driver",
    CLI + "user": "root:video",
    RUNTIME + "debug": "/var/log/nvidia-container-runtime.log",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verb", nargs="?", choices=("default",))
    parser.add_argument("--config-file", "--config", "-c", default="")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--in-place", "-i", action="store_true")
    parser.add_argument("--output", "-o", default="")


def output_path(options: argparse.Namespace, config_file: Path) -> Path | None:
    """The file to write; None for standard output."""
    if options.in_place:
        return config_file
    return Path(options.output) if options.output else None


def run(options: argparse.Namespace) -> int:
    path = Path(options.config_file or default_path())
    text = configure.read(path) if options.verb != "default" else ""
    text = changed(text or default_text(), options.set)
    target = output_path(options, path)
    if target:
        configure.write(target, text)
    else:
        sys.stdout.write(text)
    return 0


def default_path() -> str:
    import os

    return settings.config_path(os.environ)


def default_text() -> str:
    """Every key in order, those that are seldom set as comments."""
    tables: dict[str, list[str]] = {RUNTIME + "modes": []}
    for key in sorted(schema.DEFAULTS):
        table, _, name = key.rpartition(".")
        if key in COMMENTED:
            tables.setdefault(table, []).append(f"#{name} = {toml_text.literal(COMMENTED[key])}\n")
        elif schema.DEFAULTS[key] is not None and key not in UNSHOWN:
            tables.setdefault(table, []).append(
                f"{name} = {toml_text.literal(schema.DEFAULTS[key])}\n"
            )
    ordered = sorted(tables, key=lambda table: table.split("."))
    return "\n".join(
        (f"[{table}]\n" if table else "") + "".join(tables[table]) for table in ordered
    )


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
    if not given:
        raise RuntimeFault(f"invalid --set option {key}: expected {key}=VALUE")
    if wanted is list:
        return [item for item in value.replace(",", ":").split(":") if item]
    return value
