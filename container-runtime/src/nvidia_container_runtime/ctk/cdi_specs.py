"""nvidia-ctk cdi: make a CDI spec of this host's driver, list what the host's specs offer, move one to another root."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from .. import cdi_spec, csv_mode, driver_files, edits, jit, nvml, request, settings
from ..cdi_registry import Registry
from ..errors import RuntimeFault
from ..host import is_csv_platform
from ..journal import Journal
from . import configure

VERSIONS = tuple(cdi_spec.version_key(version) for version in cdi_spec.VERSIONS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True)
    generate = verbs.add_parser("generate", help="make a spec of this host's driver")
    generate.add_argument("--output", default="")
    generate.add_argument("--format", choices=("yaml", "json"), default="")
    generate.add_argument("--mode", "--discovery-mode", choices=("auto", "nvml", "csv"), default="auto")
    generate.add_argument(
        "--device-name-strategy", choices=("index", "uuid", "type-index"), action="append", default=[]
    )
    generate.add_argument("--driver-root", default="")
    generate.add_argument("--nvidia-ctk-path", "--nvidia-cdi-hook-path", default="/usr/bin/nvidia-ctk")
    generate.add_argument("--vendor", default="nvidia.com")
    generate.add_argument("--class", dest="class_name", default="gpu")
    generate.add_argument("--csv.file", dest="csv_folder", default="", metavar="FOLDER")
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
    return {"generate": generate, "list": list_devices, "transform": transform_root}[options.verb](options)


# --- generate


def generate(options: argparse.Namespace) -> int:
    config = settings.load(settings.config_path(os.environ))
    if options.driver_root:
        config.values[settings.CLI + "root"] = options.driver_root
    if options.csv_folder:
        config.values[settings.RUNTIME + "modes.csv.mount-spec-path"] = options.csv_folder
    mode = options.mode if options.mode != "auto" else "csv" if is_csv_platform() else "nvml"
    devices, common = (csv_devices if mode == "csv" else nvml_devices)(options, config)
    write(complete(f"{options.vendor}/{options.class_name}", devices, common), options.output, options.format)
    return 0


def csv_devices(options: argparse.Namespace, config: settings.Settings) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    container = request.Container({})
    found = csv_mode.container_edits(container, ["all"], config, Journal(), options.nvidia_ctk_path)
    device = {"deviceNodes": found.pop("deviceNodes")}
    if not device["deviceNodes"]:
        raise RuntimeFault("no device nodes are listed in the CSV files; is --csv.file right?")
    return [{"name": name, "containerEdits": device} for name in ("0", "all")], found


def nvml_devices(options: argparse.Namespace, config: settings.Settings) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    try:
        with nvml.Driver() as driver:
            devices: list[dict[str, Any]] = []
            whole: list[dict[str, Any]] = []
            for one in jit.select("all", driver.gpus()):
                part = jit.device_edits(one, config, options.nvidia_ctk_path)
                whole.append(part)
                devices += [
                    {"name": name, "containerEdits": part} for name in device_names(one, options.device_name_strategy)
                ]
            common = driver_files.common_edits(config.driver_root, driver.version, options.nvidia_ctk_path, Journal())
    except nvml.DriverFault as fault:
        raise RuntimeFault(f"failed to initialize NVML: {fault}") from None
    everything = edits.joined(whole)
    return [*devices, {"name": "all", "containerEdits": everything}], common


def device_names(device: nvml.Gpu | nvml.Mig, strategies: list[str]) -> list[str]:
    is_gpu = isinstance(device, nvml.Gpu)
    index = str(device.index) if isinstance(device, nvml.Gpu) else f"{device.gpu.index}:{device.index}"
    names = {"index": index, "uuid": device.uuid, "type-index": ("gpu" if is_gpu else "mig") + index}
    return [names[strategy] for strategy in strategies or ("index", "uuid")]


def complete(kind: str, devices: list[dict[str, Any]], common: dict[str, Any]) -> dict[str, Any]:
    """The spec with the lowest version that has everything in it, so that old engines read it too."""
    trimmed = [{**device, "containerEdits": without_empty(device["containerEdits"])} for device in devices]
    spec: dict[str, Any] = {"cdiVersion": "", "kind": kind, "devices": trimmed, "containerEdits": without_empty(common)}
    needed = cdi_spec.needed_version(spec, trimmed)
    spec["cdiVersion"] = ".".join(map(str, next(version for version in VERSIONS if version >= needed)))
    try:
        cdi_spec.check_spec(spec)
    except cdi_spec.CdiFault as fault:
        raise RuntimeFault(f"the spec that was made is not valid: {fault}") from None
    return spec


def without_empty(parts: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in parts.items() if value}


# --- list


def list_devices(options: argparse.Namespace) -> int:
    config = settings.load(settings.config_path(os.environ))
    registry = Registry(options.spec_dir or config[settings.RUNTIME + "modes.cdi.spec-dirs"], Journal())
    names = sorted(registry.devices)
    print(f"Found {len(names)} CDI devices", file=sys.stderr)
    for name in names:
        print(name)
    return 0


# --- transform root

HOST_HOOKS = ("prestart", "createRuntime", "poststart", "poststop")  # the paths in their arguments are the host's


def transform_root(options: argparse.Namespace) -> int:
    text = sys.stdin.read() if options.input == "-" else Path(options.input).read_text()
    try:
        spec = cdi_spec.parse(text, is_json=text.lstrip().startswith("{"))
    except cdi_spec.CdiFault as fault:
        raise RuntimeFault(f"{options.input}: {fault}") from None
    for part in [spec.get("containerEdits") or {}, *(device["containerEdits"] for device in spec["devices"])]:
        move(part, options.source.rstrip("/"), options.target.rstrip("/"), options.relative_to)
        if part.get("hooks"):
            part["hooks"] = [edits.with_environment(hook) for hook in part["hooks"]]
    write(spec, options.output, "json" if text.lstrip().startswith("{") else "yaml")
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


# --- output


def write(spec: dict[str, Any], output: str, form: str) -> None:
    form = form or ("json" if output.endswith(".json") else "yaml")
    text = json.dumps(spec, indent=2) + "\n" if form == "json" else "---\n" + as_yaml(spec)
    if output in ("", "-"):
        sys.stdout.write(text)
    else:
        configure.write(Path(output), text)


def as_yaml(value: Any, indent: str = "") -> str:
    """Block style, every string in JSON's quotes, which YAML reads alike."""
    if isinstance(value, dict):
        return "".join(f"{indent}{key}:{under(one, indent + '  ')}" for key, one in value.items())  # pyright: ignore
    return "".join(f"{indent}-{first_line(one, indent + '  ')}" for one in value)


def under(value: Any, indent: str) -> str:
    if isinstance(value, (dict, list)) and value:
        return "\n" + as_yaml(value, indent)
    return f" {json.dumps(value)}\n"


def first_line(value: Any, indent: str) -> str:
    if isinstance(value, (dict, list)) and value:
        return " " + as_yaml(value, indent)[len(indent) :]
    return f" {json.dumps(value)}\n"
