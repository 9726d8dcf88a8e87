"""nvidia-ctk cdi generate: a CDI spec of what this host has. A function for each mode.

Not here: how edits are found (jit.py, csv_mode.py, gated.py), and how a spec is written
(spec_output.py).
"""

from __future__ import annotations

import argparse
import fnmatch
import os
from collections.abc import Callable
from typing import Any

from .. import (
    cdi_spec,
    csv_mode,
    driver_files,
    edits,
    files,
    gated,
    host,
    jit,
    nvml,
    paths,
    settings,
)
from ..errors import RuntimeFault
from ..journal import Journal
from ..sections import CLI, RUNTIME
from ..settings import Settings
from . import spec_output

VERSIONS = tuple(cdi_spec.version_key(version) for version in cdi_spec.VERSIONS)
VOID = {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}
MANAGED_NODES = (
    "/dev/nvidia*",
    "/dev/nvidia-caps/nvidia-cap*",
    "/dev/nvidia-caps-imex-channels/channel*",
)
UNMANAGED = ("nvidia-fs", "nvidia-nvswitch", "nvidia-nvlink")
IMEX_CHANNELS = "/dev/nvidia-caps-imex-channels"
# Hooks that keep a container's tools to its own GPUs: one that manages all of them has no use for
# these.
CONFINING_HOOKS = ("disable-device-node-modification", "update-application-profile")

Edits = dict[str, Any]
Devices = list[tuple[str, Edits]]  # (name, edits) of each CDI device
Found = tuple[Devices, Edits]  # and the edits that all have in common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", default="")
    parser.add_argument("--format", choices=("yaml", "json"), default="")
    parser.add_argument("--mode", "--discovery-mode", choices=("auto", *MODES), default="auto")
    parser.add_argument(
        "--device-name-strategy",
        choices=("index", "uuid", "type-index"),
        action="append",
        default=[],
    )
    parser.add_argument("--driver-root", default="")
    parser.add_argument("--dev-root", default="", help="where dev is, if not below the driver root")
    parser.add_argument(
        "--nvidia-ctk-path", "--nvidia-cdi-hook-path", default="/usr/bin/nvidia-ctk"
    )
    parser.add_argument(
        "--ldconfig-path", default="", help="the ldconfig that the spec's hooks run"
    )
    parser.add_argument("--vendor", "--cdi-vendor", default="nvidia.com")
    parser.add_argument("--class", "--cdi-class", dest="class_name", default="gpu")
    for flags, what in (
        (("--device-id", "--device-ids", "--device", "--devices"), "leave out all other devices"),
        (("--disable-hook", "--disable-hooks"), "leave a hook out; `all` leaves out every hook"),
        (("--enable-hook", "--enable-hooks"), "keep a hook that --disable-hook names"),
        (("--csv.file",), "a list of csv mode, or a folder of lists"),
        (
            ("--csv.ignore-pattern",),
            "leave out links (sym) of the lists; **/NAME is a name in any folder",
        ),
    ):
        name = flags[0].lstrip("-").replace(".", "_").replace("-", "_") + "s"
        parser.add_argument(*flags, dest=name, action="append", default=[], help=what)
    parser.add_argument("--csv.compat-container-root", dest="compat_root", default="")
    parser.add_argument("--no-all-device", action="store_true", help="make no device `all`")


def run(options: argparse.Namespace) -> int:
    config = load_settings(options)
    mode = options.mode
    if mode == "auto":
        mode = "csv" if host.is_csv_platform() else "nvml"
    devices, common = MODES[mode](options, config)
    if options.no_all_device:
        devices = [(name, part) for name, part in devices if name != "all"]
    for part in (*(part for _, part in devices), common):
        part["hooks"] = chosen_hooks(part.get("hooks") or [], options)
        part["additionalGids"] = groups(part, config)
    spec = complete(f"{options.vendor}/{options.class_name}", devices, common)
    spec_output.write(spec, options.output, options.format or "yaml")
    return 0


def load_settings(options: argparse.Namespace) -> Settings:
    config = settings.load(settings.config_path(os.environ))
    for key, given in (
        (CLI + "root", options.driver_root),
        (RUNTIME + "modes.csv.compat-container-root", options.compat_root),
    ):
        if given:
            config.values[key] = given
    return config


def split_values(values: list[str]) -> list[str]:
    """A flag's values, each of which may be several with commas between."""
    return [item for value in values for item in value.split(",") if item]


def with_root(root: str, config: Settings) -> Settings:
    """The configuration with another root; the same where none is named."""
    return Settings({**config.values, CLI + "root": root}) if root else config


def with_dev_root(
    make: Callable[[Settings], Edits], options: argparse.Namespace, config: Settings
) -> Edits:
    """Edits of the driver root, with the device nodes of the other root where one is named."""
    found = make(config)
    if options.dev_root:
        found["deviceNodes"] = make(with_root(options.dev_root, config)).get("deviceNodes") or []
    return found


# --- the modes


def nvml_devices(options: argparse.Namespace, config: Settings) -> Found:
    hook, nodes = options.nvidia_ctk_path, with_root(options.dev_root, config)
    devices: Devices = []
    whole: list[Edits] = []
    try:
        with nvml.Driver(host.nvml_library(config.driver_root)) as driver:
            gpus, wanted = driver.gpus(), split_values(options.device_ids) or ["all"]
            for one in [found for name in wanted for found in selected(name, gpus)]:
                part = jit.device_edits(one, nodes, hook)
                whole.append(part)
                devices += [
                    (name, dict(part)) for name in device_names(one, options.device_name_strategy)
                ]
            version = driver.version
    except nvml.DriverFault as fault:
        raise RuntimeFault(f"failed to initialize NVML: {fault}") from None
    return [*devices, ("all", edits.join_edits(whole))], common_edits(version, options, config)


def selected(name: str, gpus: list[nvml.Gpu]) -> list[nvml.Gpu | nvml.Mig]:
    try:
        return jit.select(name, gpus)
    except RuntimeFault:
        raise RuntimeFault(
            f"this host has no device {name!r}; `nvidia-ctk info` lists its GPUs"
        ) from None


def common_edits(version: str, options: argparse.Namespace, config: Settings) -> Edits:
    def make(chosen: Settings) -> Edits:
        return driver_files.common_edits(
            chosen.driver_root, version, options.nvidia_ctk_path, Journal()
        )

    return with_dev_root(make, options, config)


def device_names(device: nvml.Gpu | nvml.Mig, strategies: list[str]) -> list[str]:
    is_gpu = isinstance(device, nvml.Gpu)
    index = (
        str(device.index) if isinstance(device, nvml.Gpu) else f"{device.gpu.index}:{device.index}"
    )
    names = {
        "index": index,
        "uuid": device.uuid,
        "type-index": ("gpu" if is_gpu else "mig") + index,
    }
    return [names[strategy] for strategy in strategies or ("index", "uuid")]


def csv_devices(options: argparse.Namespace, config: Settings) -> Found:
    csv_mode.check_devices(split_values(options.device_ids))
    given = options.csv_files or [config[RUNTIME + "modes.csv.mount-spec-path"]]
    lists = [
        file
        for one in given
        for file in (csv_mode.csv_files(one, False) if paths.is_dir(one) else [one])
    ]
    items = [
        item
        for item in csv_mode.read_lists(lists, Journal())
        if not ignored(item, options.csv_ignore_patterns)
    ]

    def make(chosen: Settings) -> Edits:
        return csv_mode.edits_of(items, chosen, Journal(), options.nvidia_ctk_path)

    found = with_dev_root(make, options, config)
    device = {"deviceNodes": found.pop("deviceNodes")}
    if not device["deviceNodes"]:
        raise RuntimeFault("no device nodes are listed in the CSV files; is --csv.file right?")
    return [(name, dict(device)) for name in ("0", "all")], found


def ignored(item: csv_mode.Item, patterns: list[str]) -> bool:
    """True if a pattern matches the link's whole path, folder by folder, or with **/ its name."""
    if item.kind != "sym":
        return False
    for pattern in patterns:
        if pattern.startswith("**/"):
            if fnmatch.fnmatchcase(paths.base(item.path), pattern[len("**/") :]):
                return True
            continue
        wanted, given = pattern.split("/"), item.path.split("/")
        if len(wanted) == len(given) and all(map(fnmatch.fnmatchcase, given, wanted)):
            return True
    return False


def management_devices(options: argparse.Namespace, config: Settings) -> Found:
    """Every device of the driver, for containers that manage the GPUs."""
    version = driver_files.version(config.driver_root)
    if not version:
        raise RuntimeFault(
            f"no driver is installed below {config.driver_root}; is --driver-root right?"
        )
    common = common_edits(version, options, config)
    common["deviceNodes"] = []
    common["hooks"] = [hook for hook in common["hooks"] if hook_name(hook) not in CONFINING_HOOKS]
    return [
        ("all", {"deviceNodes": managed_nodes(with_root(options.dev_root, config).driver_root)})
    ], common


def managed_nodes(root: str) -> list[Edits]:
    inner = [
        files.inside(root, path)
        for pattern in MANAGED_NODES
        for path in files.matches(files.below(root, pattern), root)
        if not paths.base(path).startswith(UNMANAGED)
    ]
    return [node for path in inner for node in [files.device_node(root, path)] if node]


def imex_devices(options: argparse.Namespace, config: Settings) -> Found:
    nodes = with_root(options.dev_root, config)
    root = nodes.driver_root
    names = [
        name for name in paths.names(files.below(root, IMEX_CHANNELS)) if name.startswith("channel")
    ]
    channels = sorted(
        (name[len("channel") :] for name in names), key=lambda name: (len(name), name)
    )
    wanted = split_values(options.device_ids) or ["all"]
    chosen = channels if "all" in wanted else wanted
    devices = [(channel, jit.imex_edits(channel, nodes)) for channel in chosen]
    if not devices:
        raise RuntimeFault(f"no IMEX channels below {files.below(root, IMEX_CHANNELS)}")
    return [*devices, ("all", edits.join_edits([part for _, part in devices]))], dict(VOID)


def feature_devices(feature: str) -> Callable[[argparse.Namespace, Settings], Found]:
    def made(options: argparse.Namespace, config: Settings) -> Found:
        part = with_dev_root(
            lambda chosen: gated.feature_edits(feature, chosen, Journal()), options, config
        )
        if not part["deviceNodes"]:
            raise RuntimeFault(
                f"no device nodes of {feature} found below "
                f"{with_root(options.dev_root, config).driver_root}"
            )
        options.no_all_device = False  # the one device that there is
        return [("all", part)], dict(VOID)

    return made


MODES: dict[str, Callable[[argparse.Namespace, Settings], Found]] = {
    "nvml": nvml_devices,
    "csv": csv_devices,
    "management": management_devices,
    "imex": imex_devices,
    **{feature: feature_devices(feature) for feature in gated.NODES},
}


# --- what all modes have


def hook_name(hook: Edits) -> str:
    words = hook["args"]
    return words[2] if words[1] == "hook" else words[1]


def chosen_hooks(hooks: list[Edits], options: argparse.Namespace) -> list[Edits]:
    disabled = set(split_values(options.disable_hooks))
    enabled = set(split_values(options.enable_hooks))
    kept = [
        hook
        for hook in hooks
        if hook_name(hook) in enabled or not disabled & {"all", hook_name(hook)}
    ]
    return [with_ldconfig(hook, options.ldconfig_path) for hook in kept]


def with_ldconfig(hook: Edits, path: str) -> Edits:
    if not path or hook_name(hook) != "update-ldcache":
        return hook
    at = hook["args"].index("update-ldcache") + 1
    return {**hook, "args": [*hook["args"][:at], "--ldconfig-path", path, *hook["args"][at:]]}


def groups(part: Edits, config: Settings) -> list[int]:
    """The groups of a container's process that its nodes ask for."""
    if config.feature("no-additional-gids-for-device-nodes"):
        return []
    return files.groups(part.get("deviceNodes") or [])


def complete(kind: str, devices: Devices, common: Edits) -> dict[str, Any]:
    """The spec with the lowest version that has everything in it, so that old
    engines read it too.
    """
    trimmed = [{"name": name, "containerEdits": without_empty(part)} for name, part in devices]
    spec: dict[str, Any] = {
        "cdiVersion": "",
        "kind": kind,
        "devices": trimmed,
        "containerEdits": without_empty(common),
    }
    needed = cdi_spec.needed_version(spec, trimmed)
    spec["cdiVersion"] = ".".join(
        map(str, next(version for version in VERSIONS if version >= needed))
    )
    try:
        cdi_spec.check_spec(spec)
    except cdi_spec.CdiFault as fault:
        raise RuntimeFault(f"the spec that was made is not valid: {fault}") from None
    return spec


def without_empty(parts: Edits) -> Edits:
    return {key: value for key, value in parts.items() if value}
