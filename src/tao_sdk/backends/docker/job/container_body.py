"""Container body: the request that creates a job's container, in the daemon's API form. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from tao_sdk.backends.containers.request import job_labels
from tao_sdk.backends.containers.start_script import GRACE, is_long, start_script
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.backends.mounts import Mount
from tao_sdk.backends.native_patch import patched
from tao_sdk.model.plan import Attempt
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.secrets import SecretRef
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.units import parse_size

BACKEND_TYPE = "local-docker"  # what the documents call this backend
DEFAULT_NETWORK = "tao_default"
BUILT_IN_NETWORKS = ("bridge", "host", "none")
# The driver "local" keeps the log's bytes unchanged; json-file does not. It rotates by default, so
# the limit is set out of reach.
LOG_DRIVER = {
    "Type": "local",
    "Config": {"max-size": "1000g", "max-file": "1", "compress": "false"},
}
# Our variables that `docker inspect` may show.
PUBLIC_VARIABLES = frozenset({"TAO_JOB_ID", "TAO_ATTEMPT", "TINI_KILL_PROCESS_GROUP"})
PLAIN_SECONDS = re.compile(r"[0-9]{1,7}(\.[0-9]{1,3})?")
TERMINAL_FIELDS = ("Tty", "OpenStdin", "StdinOnce")


@dataclass(frozen=True)
class ContainerNeeds:
    """A job's needs in its container. render.py decides them, and the body below contains them."""

    mounts: list[Mount]
    user: str
    gpus: list[int]
    results_root: str  # folder for the results of all jobs; "" if none outlives the container
    results_dir: str  # this job's results, as a path on the daemon's machine or an address
    variables: Mapping[str, str | SecretRef]

    @property
    def shown_variables(self) -> dict[str, str]:
        """The variables that become part of the body, where `docker inspect` shows them."""
        shown: dict[str, str] = {}
        for name, value in self.variables.items():
            if is_public(name) and isinstance(value, str):
                shown[name] = value
        return shown

    @property
    def hidden_variables(self) -> dict[str, str | SecretRef]:
        """All other variables. The job gets them through standard input."""
        hidden = self.variables.keys() - self.shown_variables.keys()
        return {name: self.variables[name] for name in sorted(hidden)}


def container_body(
    job: PreparedJob,
    options: DockerOptions,
    facts: DockerFacts,
    attempt: Attempt,
    needs: ContainerNeeds,
) -> dict[str, Any]:
    """The body of POST /containers/create, with the job's `native` merged in."""
    body = unpatched_body(job, options, facts, attempt, needs)
    patch = job.spec.native
    return {**patched(body, patch), **protected_fields(body, patch)}


def unpatched_body(
    job: PreparedJob,
    options: DockerOptions,
    facts: DockerFacts,
    attempt: Attempt,
    needs: ContainerNeeds,
) -> dict[str, Any]:
    spec = job.spec
    body: dict[str, Any] = {
        "Image": spec.image,
        "Cmd": start_command(job, needs),
        "Env": variable_lines({**needs.shown_variables, **gpu_variables(spec, facts)}),
        "Labels": job_labels(spec, attempt, needs.results_dir, needs.gpus, BACKEND_TYPE),
        "StopSignal": "SIGTERM",
        "HostConfig": host_config(spec, options, facts, needs),
    }
    if needs.hidden_variables:
        body |= {"OpenStdin": True, "StdinOnce": True}
    if needs.user:
        body["User"] = needs.user
    if grace := own_grace(needs.variables):
        body["StopTimeout"] = grace
    return body


def own_grace(variables: Mapping[str, str | SecretRef]) -> int:
    """The job's TAO_GRACE in whole seconds if it is longer than the default, else 0."""
    text = variables.get("TAO_GRACE")
    if not isinstance(text, str) or not PLAIN_SECONDS.fullmatch(text):
        return 0
    seconds = math.ceil(float(text))
    if seconds <= GRACE:
        return 0
    return seconds


def start_command(job: PreparedJob, needs: ContainerNeeds) -> list[str]:
    """The container's first command. A long job command is no argument: it comes as a file."""
    script = start_script(job.command, job.spec.time_limit, bool(needs.hidden_variables))
    words = ["/bin/sh", "-c", script, "tao"]
    if not is_long(job.command):
        words.append(job.command)
    return words


def variable_lines(variables: Mapping[str, str]) -> list[str]:
    """The variables as `NAME=value` lines for the API."""
    return [f"{name}={value}" for name, value in sorted(variables.items())]


def protected_fields(body: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that `native` cannot change.

    These are the labels by which jobs are found, and the terminal. A terminal would echo the
    secrets that are written to standard input.
    """
    terminal = {name: body.get(name, False) for name in TERMINAL_FIELDS}
    added_labels: dict[str, Any] = patch.get("Labels") or {}
    return {"Labels": {**added_labels, **body["Labels"]}, **terminal}


def is_public(name: str) -> bool:
    """True if `docker inspect` may show the variable.

    The GPU runtime reads NVIDIA_* from the body, before the container starts.
    """
    return name.startswith("NVIDIA_") or name in PUBLIC_VARIABLES


def host_config(
    spec: JobSpec, options: DockerOptions, facts: DockerFacts, needs: ContainerNeeds
) -> dict[str, Any]:
    """The body's HostConfig: mounts, limits, network, GPUs."""
    config: dict[str, Any] = {
        "Init": True,
        "NetworkMode": choose_network(spec, options, facts),
        "Mounts": [mount.request() for mount in needs.mounts],
        "Tmpfs": {"/dev/shm": shm_options(spec)},
        "LogConfig": LOG_DRIVER,
    }
    if spec.memory:
        memory = parse_size(spec.memory)
        config |= {"Memory": memory, "MemorySwap": memory}
    if spec.cpus:
        config["NanoCpus"] = max(1, int(spec.cpus * 1e9))  # 0 would mean no limit
    if spec.gpu_count or options.gpu_ids:
        config |= gpu_config(spec, facts, needs.gpus)
    return config


def shm_options(spec: JobSpec) -> str:
    """Mount options of /dev/shm. Without a size the kernel takes half of the memory."""
    options = "rw,nosuid,nodev,exec,mode=1777"
    if spec.shm_size:
        options += f",size={parse_size(spec.shm_size)}"
    return options


# GPUs


def gpu_config(spec: JobSpec, facts: DockerFacts, gpus: list[int]) -> dict[str, Any]:
    """HostConfig's part for GPUs: the runtime on a Jetson, else a device request."""
    if facts.tegra:
        return {"Runtime": "nvidia"}
    return {"DeviceRequests": [device_request(spec.gpu_count, gpus)]}


def device_request(count: int, gpus: list[int]) -> dict[str, Any]:
    """The device request: by id if GPUs were chosen, else by count. -1 asks for all GPUs."""
    request: dict[str, Any] = {"Driver": "", "Capabilities": [["gpu"]], "Options": {}}
    if gpus:
        return {**request, "DeviceIDs": [str(index) for index in gpus]}
    return {**request, "Count": count}


def count_gpus(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> int | None:
    """The number of GPUs for the job. None: all GPUs of a machine that cannot be seen from here."""
    if options.gpu_ids:
        return len(options.gpu_ids)
    if spec.gpu_count >= 0:
        return spec.gpu_count
    return len(facts.gpus) or None


def gpu_variables(spec: JobSpec, facts: DockerFacts) -> dict[str, str]:
    """The variables with which the GPU runtime shows or hides GPUs."""
    if spec.gpu_count == 0:
        return {"NVIDIA_VISIBLE_DEVICES": "void"}
    if facts.tegra:
        return {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}
    return {}


def choose_gpus(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> list[int]:
    """The ids of free GPUs for the job, so that two jobs do not get the same ones.

    [] leaves the choice to Docker: the job wants no GPU or all, or too few free ones are visible.
    """
    if options.gpu_ids:
        return list(options.gpu_ids)
    if spec.gpu_count <= 0:
        return []
    free = [index for index in facts.gpus if index not in facts.busy_gpus]
    if len(free) < spec.gpu_count:
        return []
    return free[: spec.gpu_count]


# The network


def choose_network(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> str:
    """The network's name: from the spec's `native`, else options, settings, or our default."""
    return native_network(spec) or options.network or facts.network or DEFAULT_NETWORK


def native_network(spec: JobSpec) -> str:
    """NetworkMode in the spec's `native`, "" if it is not there.

    "" also for a value of the wrong kind: `patched` refuses it with the rest of `native`.
    """
    patch = spec.native.get("HostConfig")
    if not isinstance(patch, Mapping):
        return ""
    network = cast("Mapping[str, Any]", patch).get("NetworkMode")
    if not isinstance(network, str):
        return ""
    return network
