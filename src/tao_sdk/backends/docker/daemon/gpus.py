"""GPUs: those that this machine shows, and which running container has which, of ours or of
anybody's.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from tao_sdk.backends.containers import parse, window
from tao_sdk.transports.dockerd import Daemon, DaemonError, ignored

NVIDIA_SMI = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
NONE = ("", "void", "none")
NO_PROGRAM = "/.tao-no-program"
ANY_GPU: Mapping[str, Any] = {"Driver": "", "Count": 1, "Capabilities": [["gpu"]], "Options": {}}


def visible_gpus() -> dict[int, str]:
    """Index -> UUID of the GPUs that nvidia-smi shows here."""
    if shutil.which("nvidia-smi") is None:
        return {}
    try:
        seen = subprocess.run(NVIDIA_SMI, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = (
        [line.partition(",") for line in seen.stdout.splitlines()] if seen.returncode == 0 else []
    )
    return {int(index): uuid.strip() for index, _, uuid in rows if index.strip().isdigit()}


def has_runtime(info: Mapping[str, Any]) -> bool:
    return "nvidia" in (info.get("Runtimes") or {})


def refusal(daemon: Daemon) -> str:
    """Why the daemon gives no GPU to a container, in its words; "" where it does.

    A container is started for it that has no program to run: without GPUs the daemon says so before
    it looks for one.
    """
    body: dict[str, Any] = {
        "Image": window.images(daemon)[0],
        "Entrypoint": [NO_PROGRAM],
        "NetworkDisabled": True,
        "Labels": window.labels(),
        "HostConfig": {
            "NetworkMode": "none",
            "LogConfig": {"Type": "none"},
            "DeviceRequests": [ANY_GPU],
        },
    }
    container = daemon.ask("POST", "/containers/create", body)["Id"]
    try:
        daemon.ask("POST", f"/containers/{container}/start")
    except DaemonError as error:
        return "" if NO_PROGRAM in error.backend_words else error.backend_words
    finally:
        daemon.ask("DELETE", f"/containers/{container}", force=1, v=1)
    return ""


def held_gpus(daemon: Daemon, gpus: Mapping[int, str]) -> dict[int, str]:
    """GPU -> the running container that has it. Ours say it in a label; a
    stranger's is looked at.
    """
    held: dict[int, str] = {}
    for each in daemon.ask("GET", "/containers/json"):
        labels: dict[str, str] = each.get("Labels") or {}
        ours = labels.get("tao-sdk-gpus")
        names = ours.split(",") if ours else asked_for(daemon, each["Id"])
        called: list[str] = each.get("Names") or [each["Id"][:12]]  # one on its way out has none
        held |= dict.fromkeys(indices(names, gpus), called[0].lstrip("/"))
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
