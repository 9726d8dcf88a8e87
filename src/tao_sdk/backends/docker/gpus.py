"""GPUs: those that this machine shows, and which running container has which, of ours or of anybody's."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from tao_sdk.backends.docker import parse
from tao_sdk.transports.dockerd import Daemon, ignored

NVIDIA_SMI = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
NONE = ("", "void", "none")


def visible_gpus() -> dict[int, str]:
    """Index -> UUID of the GPUs that nvidia-smi shows here."""
    if shutil.which("nvidia-smi") is None:
        return {}
    try:
        seen = subprocess.run(NVIDIA_SMI, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = [line.partition(",") for line in seen.stdout.splitlines()] if seen.returncode == 0 else []
    return {int(index): uuid.strip() for index, _, uuid in rows if index.strip().isdigit()}


def held_gpus(daemon: Daemon, gpus: Mapping[int, str]) -> dict[int, str]:
    """GPU -> the running container that has it. Ours say it in a label; a stranger's is looked at."""
    held: dict[int, str] = {}
    for each in daemon.ask("GET", "/containers/json"):
        ours = each["Labels"].get("tao-sdk-gpus")
        names = ours.split(",") if ours else asked_for(daemon, each["Id"])
        name: str = each["Names"][0].lstrip("/")
        held |= dict.fromkeys(indices(names, gpus), name)
    return held


def asked_for(daemon: Daemon, container: str) -> list[str]:
    """What a container has of GPUs, as it was asked for: indices, UUIDs, `all`."""
    with ignored(404):  # it ended since it was listed
        return list(named(daemon.get(f"/containers/{container}/json")))
    return []


def named(inspected: Mapping[str, Any]) -> Iterator[str]:
    """A count means the first ones: so Docker has it. The nvidia runtime reads a variable."""
    requests: list[dict[str, Any]] = inspected["HostConfig"].get("DeviceRequests") or []
    for request in requests:
        kinds: list[list[str]] = request.get("Capabilities") or []
        if any("gpu" in each for each in kinds):
            ids: list[str] = request.get("DeviceIDs") or []
            count: int = request.get("Count") or 0
            yield from ids or (["all"] if count < 0 else map(str, range(count)))
    if inspected["HostConfig"].get("Runtime") == "nvidia":
        yield from parse.variable(inspected, "NVIDIA_VISIBLE_DEVICES").split(",")


def indices(names: list[str], gpus: Mapping[int, str]) -> list[int]:
    if "all" in names:
        return list(gpus)
    wanted = {name.strip() for name in names} - set(NONE)
    return [index for index, uuid in gpus.items() if str(index) in wanted or uuid in wanted]
