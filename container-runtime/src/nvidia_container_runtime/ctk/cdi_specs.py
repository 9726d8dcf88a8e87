"""nvidia-ctk cdi: make a CDI spec of this host's driver, list what the host's specs offer, move one
to another root.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from .. import cdi_spec, edits, settings
from ..cdi_registry import Registry
from ..errors import RuntimeFault
from ..journal import Journal, complain
from ..sections import RUNTIME
from . import generate, spec_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True)
    generate.add_arguments(verbs.add_parser("generate", help="make a spec of this host's driver"))
    listing = verbs.add_parser("list", help="name the devices that CDI specs offer")
    listing.add_argument("--spec-dir", action="append", default=[])
    transform = verbs.add_parser("transform", help="rewrite a spec")
    root = transform.add_subparsers(dest="what", required=True).add_parser(
        "root", help="move its paths to another root"
    )
    root.add_argument("--from", "--root", dest="source", default="/")
    root.add_argument("--to", "--target-root", dest="target", required=True)
    root.add_argument("--relative-to", choices=("host", "container"), default="host")
    root.add_argument("--input", default="-")
    root.add_argument("--output", default="")


def run(options: argparse.Namespace) -> int:
    return {"generate": generate.run, "list": list_devices, "transform": transform_root}[
        options.verb
    ](options)


# --- list


def list_devices(options: argparse.Namespace) -> int:
    config = settings.load(settings.config_path(os.environ))
    registry = Registry(options.spec_dir or config[RUNTIME + "modes.cdi.spec-dirs"], Journal())
    names = sorted(registry.devices)
    print(f"Found {len(names)} CDI devices", file=sys.stderr)
    for name in names:
        print(name)
    for path, why in registry.refused.items():
        complain("warning", f"refused CDI spec {path}: {why}")
    return 0


# --- transform root

HOST_HOOKS = (
    "prestart",
    "createRuntime",
    "poststart",
    "poststop",
)  # the paths in their arguments are the host's


def transform_root(options: argparse.Namespace) -> int:
    text = sys.stdin.read() if options.input == "-" else Path(options.input).read_text()
    try:
        spec = cdi_spec.parse(text, is_json=text.lstrip().startswith("{"))
    except cdi_spec.CdiFault as fault:
        raise RuntimeFault(f"{options.input}: {fault}") from None
    for part in [
        spec.get("containerEdits") or {},
        *(device["containerEdits"] for device in spec["devices"]),
    ]:
        move(part, options.source.rstrip("/"), options.target.rstrip("/"), options.relative_to)
        if part.get("hooks"):
            part["hooks"] = [edits.with_environment(hook) for hook in part["hooks"]]
    spec_output.write(spec, options.output, "json" if text.lstrip().startswith("{") else "yaml")
    return 0


def move(part: dict[str, Any], source: str, target: str, relative_to: str) -> None:
    for node in part.get("deviceNodes") or []:
        if relative_to == "host":
            node["hostPath"] = moved(node.get("hostPath") or node["path"], source, target)
        else:
            node["path"] = moved(node["path"], source, target)
    for mount in part.get("mounts") or []:
        key = "hostPath" if relative_to == "host" else "containerPath"
        mount[key] = moved(mount[key], source, target)
    for hook in part.get("hooks") or []:
        if relative_to == "host":
            hook["path"] = moved(hook["path"], source, target)
        if "args" in hook and (hook["hookName"] in HOST_HOOKS) == (relative_to == "host"):
            hook["args"] = [moved_word(word, source, target) for word in hook["args"]]


def moved_word(word: str, source: str, target: str) -> str:
    """An argument that is a path, or TARGET::LINK."""
    return "::".join(moved(path, source, target) for path in word.split("::"))


def moved(path: str, source: str, target: str) -> str:
    if path == source or (path.startswith("/") and path.startswith(source + "/")):
        return (target + path[len(source) :]) or "/"
    return path
