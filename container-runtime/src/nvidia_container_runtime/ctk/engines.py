"""Registering the runtime with container engines: what each one's configuration has to say, and
taking it out again.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ..errors import RuntimeFault
from . import toml_text

DEFAULT_FILES = {
    "docker": "/etc/docker/daemon.json",
    "containerd": "/etc/containerd/config.toml",
    "crio": "/etc/crio/crio.conf",
}
DEFAULT_DROP_INS = {
    "containerd": "/etc/containerd/conf.d/99-nvidia.toml",
    "crio": "/etc/crio/crio.conf.d/99-nvidia.toml",
}
CRI_PLUGINS = {1: "cri", 2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
# A runtime's keys in containerd 1 where there is none to be like; containerd 2 has no such keys.
NO_MODEL = {"privileged_without_host_devices": False, "runtime_engine": "", "runtime_root": ""}
# What prints the configuration that an engine works with: its file, its drop-ins and its defaults.
DUMPS = {"containerd": ("containerd", "config", "dump"), "crio": ("crio", "status", "config")}


class Registration(NamedTuple):
    """One runtime as an engine shall know it."""

    name: str
    path: str
    default: bool = False
    cdi: bool = False


# --- docker


# It takes what the other engines take.
def docker(text: str, wanted: Registration, in_force: str = "") -> str:  # noqa: ARG001
    config = daemon_json(text)
    runtimes = part(config, "runtimes")
    known = part(runtimes, wanted.name)
    runtimes[wanted.name] = {
        **known,
        "path": wanted.path,
        "args": known.get("args") or known.get("runtimeArgs") or [],
    }
    if wanted.default:
        config["default-runtime"] = wanted.name
    if wanted.cdi:
        part(config, "features")["cdi"] = True
    return json.dumps(config, indent=4) + "\n"


def docker_without(text: str, name: str) -> str:
    config = daemon_json(text)
    part(config, "runtimes").pop(name, None)
    if not config["runtimes"]:
        del config["runtimes"]
    if config.get("default-runtime") == name:
        del config["default-runtime"]
    return json.dumps(config, indent=4) + "\n"


def daemon_json(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise RuntimeFault(
            f"the file is no JSON ({error}); repair it first, it was not changed"
        ) from None
    if not isinstance(config, dict):
        raise RuntimeFault("the file holds no JSON object; it was not changed")
    return config  # pyright: ignore[reportUnknownVariableType]


def part(config: dict[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(config.setdefault(name, {}), dict):
        raise RuntimeFault(f"{name} is no JSON object; the file was not changed")
    return config[name]


# --- containerd


def cri_plugin(edit: toml_text.Edit) -> tuple[str, int]:
    version = edit.get(("version",)) or (2 if not edit.value else 1)
    if version not in CRI_PLUGINS:
        raise RuntimeFault(
            f"containerd configuration version {version} is not known (known: 1, 2, 3)"
        )
    return CRI_PLUGINS[version], version


def containerd(text: str, wanted: Registration, in_force: str = "") -> str:
    """The file's new text. `in_force` is the configuration to find the model in, where it is more
    than this file.
    """
    edit = toml_text.Edit(text)
    plugin, version = cri_plugin(edit)
    if not edit.value:
        edit.set(("version",), version)
    new = ("plugins", plugin, "containerd", "runtimes", wanted.name)
    like = containerd_model(toml_text.Edit(in_force) if in_force else edit, wanted.name)
    for key, value in {
        "runtime_type": "io.containerd.runc.v2",
        **like,
        **(edit.get(new) or {}),
    }.items():
        if not isinstance(value, dict):
            edit.set((*new, key), value)
    options = {
        **(like.get("options") or {}),
        **(edit.get((*new, "options")) or {}),
        "BinaryName": wanted.path,
    }
    if version == 1:
        options["Runtime"] = wanted.path
    for key, value in options.items():
        edit.set((*new, "options", key), value)
    if wanted.default:
        edit.set(("plugins", plugin, "containerd", "default_runtime_name"), wanted.name)
    if wanted.cdi:
        edit.set(("plugins", plugin, "enable_cdi"), True)
    return edit.text


def containerd_model(edit: toml_text.Edit, name: str) -> dict[str, Any]:
    plugin, version = cri_plugin(edit)
    table = ("plugins", plugin, "containerd")
    found = model(edit, (*table, "runtimes"), edit.get((*table, "default_runtime_name")), name)
    return found or ({} if version == 3 else dict(NO_MODEL))


def containerd_without(text: str, name: str) -> str:
    edit = toml_text.Edit(text)
    plugin, _ = cri_plugin(edit)
    edit.remove_table(("plugins", plugin, "containerd", "runtimes", name))
    default = ("plugins", plugin, "containerd", "default_runtime_name")
    if edit.get(default) == name:
        edit.remove(default)
    return edit.text


def containerd_drop_in(text: str, wanted: Registration) -> str:
    """All of the CRI plugin's table with the runtime in it: containerd replaces a plugin's table by
    an import's.
    """
    whole = toml_text.Edit(containerd(text, wanted))
    plugin, version = cri_plugin(whole)
    return toml_text.written(
        {"version": version, "plugins": {plugin: whole.get(("plugins", plugin))}}
    )


def with_import(text: str, drop_in: str) -> str:
    """The main file, told to read the drop-in's folder."""
    edit = toml_text.Edit(text)
    if not edit.value:
        edit.set(("version",), 2)
    pattern = drop_in.rpartition("/")[0] + "/*.toml"
    present = edit.get(("imports",)) or []
    if pattern not in present and drop_in not in present:
        edit.set(("imports",), [*present, pattern])
    return edit.text


def model(
    edit: toml_text.Edit, runtimes: tuple[str, ...], default: str | None, name: str
) -> dict[str, Any]:
    """The runtime whose settings a new one starts with: the default one, runc, or crun."""
    for candidate in (default, "runc", "crun"):
        found = edit.get((*runtimes, candidate)) if candidate and candidate != name else None
        if found:
            return found
    return {}


# --- cri-o


def crio(text: str, wanted: Registration, in_force: str = "") -> str:
    edit = toml_text.Edit(text)
    runtimes = ("crio", "runtime", "runtimes")
    known = toml_text.Edit(in_force) if in_force else edit
    like = model(known, runtimes, known.get(("crio", "runtime", "default_runtime")), wanted.name)
    new = (*runtimes, wanted.name)
    kept = {
        **like,
        "runtime_type": like.get("runtime_type") or "oci",
        **(edit.get(new) or {}),
        "runtime_path": wanted.path,
    }
    for key, value in kept.items():
        edit.set((*new, key), value)
    if wanted.default:
        edit.set(("crio", "runtime", "default_runtime"), wanted.name)
    return edit.text


def crio_without(text: str, name: str) -> str:
    edit = toml_text.Edit(text)
    edit.remove_table(("crio", "runtime", "runtimes", name))
    if edit.get(("crio", "runtime", "default_runtime")) == name:
        edit.remove(("crio", "runtime", "default_runtime"))
    return edit.text


def podman_hook(path: str) -> str:
    """The hook file that podman and cri-o read from their hooks folder."""
    hook = {
        "version": "1.0.0",
        "hook": {
            "path": path,
            "args": [path.rpartition("/")[2], "prestart"],
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        },
        "when": {"always": True, "commands": [".*"]},
        "stages": ["prestart"],
    }
    return json.dumps(hook, indent=4) + "\n"


ADD = {"docker": docker, "containerd": containerd, "crio": crio}
REMOVE = {"docker": docker_without, "containerd": containerd_without, "crio": crio_without}
