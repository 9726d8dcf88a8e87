"""nvidia-ctk info: what the runtime sees on this host, in a few lines."""

from __future__ import annotations

import os

from .. import VERSION, host, lowlevel, settings
from ..errors import RuntimeFault
from ..sections import CLI, RUNTIME


def run() -> int:
    path = settings.config_path(os.environ)
    config = settings.load(path)
    search = os.environ.get("PATH", "")
    lines = {
        "version": VERSION,
        "configuration": path if config.text is not None else f"{path} (not there: defaults)",
        "mode": config[RUNTIME + "mode"],
        "low-level runtime": runtime(config, search),
        "nvidia-container-cli": host.find_container_cli(
            config[CLI + "path"], config[CLI + "root"], search
        )
        or "not found",
        "driver": driver(config.driver_root),
    }
    for name, value in lines.items():
        print(f"{name}: {value}")
    return 0


def runtime(config: settings.Settings, search: str) -> str:
    try:
        return lowlevel.find(config[RUNTIME + "runtimes"], search)[0]
    except RuntimeFault as fault:
        return str(fault)


def driver(root: str) -> str:
    from .. import nvml

    try:
        with nvml.Driver(host.nvml_library(root)) as opened:
            gpus = ", ".join(f"{gpu.index} {gpu.name} ({gpu.uuid})" for gpu in opened.gpus())
            return f"{opened.version}, CUDA {opened.cuda_version}: {gpus or 'no GPU'}"
    except nvml.DriverFault as fault:
        return f"none ({fault})"
