"""GPUs: the GPUs that this machine shows, and the running containers that use them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from tao_sdk.backends.containers import parse, window
from tao_sdk.backends.daemon_machine import ssh_words
from tao_sdk.backends.docker.daemon.address import is_local
from tao_sdk.backends.this_machine import NVIDIA_SMI_SECONDS, gpus_here
from tao_sdk.model.machines import GPU_QUERY, Gpu, parse_gpus
from tao_sdk.transports.dockerd import Address, Daemon, DaemonError, ignore_status
from tao_sdk.transports.process import NotStarted, output

NVIDIA_SMI = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
NO_GPU = ("", "void", "none")  # values of NVIDIA_VISIBLE_DEVICES that mean no GPU
NO_PROGRAM = "/.tao-no-program"
ANY_GPU: Mapping[str, Any] = {"Driver": "", "Count": 1, "Capabilities": [["gpu"]], "Options": {}}


def visible_gpus() -> dict[int, str]:
    """Index -> UUID of the GPUs that nvidia-smi shows here."""
    if shutil.which("nvidia-smi") is None:
        return {}
    try:
        listing = subprocess.run(
            NVIDIA_SMI, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if listing.returncode != 0:
        return {}
    return parse_listing(listing.stdout)


def parse_listing(text: str) -> dict[int, str]:
    """Index -> UUID, from nvidia-smi's lines `0, GPU-...`. Ignores other lines."""
    gpus: dict[int, str] = {}
    for line in text.splitlines():
        index, _, uuid = line.partition(",")
        if index.strip().isdigit():
            gpus[int(index)] = uuid.strip()
    return gpus


def gpus_of_machine(address: Address, environ: Mapping[str, str]) -> tuple[tuple[Gpu, ...], str]:
    """Return (the GPUs that nvidia-smi shows on the daemon's machine, "") or (no GPUs, why they
    cannot be seen).
    """
    if is_local(address):
        return gpus_here(environ)
    words = ssh_words(address.url)
    if not words:
        return (), f"The machine of {address.url} cannot be looked at from here."
    try:
        listing = output([*words, " ".join(GPU_QUERY)], environ, NVIDIA_SMI_SECONDS)
    except NotStarted as failed:
        return (), f"nvidia-smi on the machine of {address.url}: {failed}"
    return tuple(parse_gpus(listing)), ""


def has_runtime(info: Mapping[str, Any]) -> bool:
    return "nvidia" in (info.get("Runtimes") or {})


def refusal(daemon: Daemon) -> str:
    """The daemon's reason to give no GPU to a container, in its words; "" if it gives one.

    This starts a container whose program does not exist. A daemon without GPUs refuses the GPU
    before it looks for the program.
    """
    image = window.list_images(daemon)[0]
    body: dict[str, Any] = {
        "Image": image,
        "Entrypoint": [NO_PROGRAM],
        "NetworkDisabled": True,
        "Labels": window.window_labels(),
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
        window.remove_if_empty(daemon, image)
    return ""


def find_busy_gpus(daemon: Daemon, gpus: Mapping[int, str]) -> dict[int, str]:
    """GPU -> the running container that uses it. `gpus`: index -> UUID."""
    busy: dict[int, str] = {}
    for container in daemon.ask("GET", "/containers/json"):
        indices = gpu_indices(gpu_names(daemon, container), gpus)
        busy |= dict.fromkeys(indices, listed_name(container))
    return busy


def listed_name(container: Mapping[str, Any]) -> str:
    """The name of a listed container; the start of its id if it is being removed."""
    names: list[str] = container.get("Names") or [container["Id"][:12]]
    return names[0].lstrip("/")


def gpu_names(daemon: Daemon, container: Mapping[str, Any]) -> list[str]:
    """The GPUs of a listed container as it requested them: indices, UUIDs, `all`.

    Our containers have them in a label. Other containers must be inspected.
    """
    labels: dict[str, str] = container.get("Labels") or {}
    ours = labels.get("tao-sdk-gpus")
    if ours:
        return ours.split(",")
    with ignore_status(404):  # it ended since it was listed
        return list(requested_gpu_names(daemon.get(f"/containers/{container['Id']}/json")))
    return []


def requested_gpu_names(inspected: Mapping[str, Any]) -> Iterator[str]:
    """The GPUs in a container's device requests and, with the nvidia runtime, its variables."""
    config: Mapping[str, Any] = inspected["HostConfig"]
    for request in config.get("DeviceRequests") or ():
        yield from device_names(request)
    if config.get("Runtime") == "nvidia":
        yield from parse.shown_variable(inspected, "NVIDIA_VISIBLE_DEVICES").split(",")


def device_names(request: Mapping[str, Any]) -> list[str]:
    """The GPUs of one device request. A count means the first ones, as Docker reads it."""
    kinds: list[list[str]] = request.get("Capabilities") or []
    if not any("gpu" in kind for kind in kinds):
        return []
    ids: list[str] = request.get("DeviceIDs") or []
    if ids:
        return ids
    count: int = request.get("Count") or 0
    if count < 0:
        return ["all"]
    return [str(index) for index in range(count)]


def gpu_indices(names: list[str], gpus: Mapping[int, str]) -> list[int]:
    """The indices of this machine's GPUs that `names` has by index or UUID, or all for `all`."""
    if "all" in names:
        return list(gpus)
    requested = set(map(str.strip, names)) - set(NO_GPU)
    return [index for index, uuid in gpus.items() if str(index) in requested or uuid in requested]
