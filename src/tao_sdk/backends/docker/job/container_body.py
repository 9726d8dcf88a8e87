"""Container body: the request that creates a job's container, as the daemon's API has it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from tao_sdk.backends.containers.start_script import is_long, start_script
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.backends.mounts import Mount
from tao_sdk.backends.native_patch import patched
from tao_sdk.model.plan import Attempt
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.secrets import SecretRef
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.units import parse_size

DEFAULT_NETWORK = "tao_default"
BUILT_IN_NETWORKS = ("bridge", "host", "none")
# Keeps the log's bytes as they are, which json-file does not; never rotated, as json-file is not
# unless told to.
LOG = {"Type": "local", "Config": {"max-size": "1000g", "max-file": "1", "compress": "false"}}


@dataclass(frozen=True)
class Inside:
    """What a job has in its container."""

    mounts: list[Mount]
    user: str
    gpus: list[int]
    root: str  # below it lie the results of all jobs; "" where there is no such place
    results: str  # the job's own, as seen from outside
    variables: Mapping[str, str | SecretRef]

    @property
    def shown(self) -> dict[str, str]:
        """The variables that `docker inspect` may show."""
        return {
            name: value
            for name, value in self.variables.items()
            if is_shown(name) and isinstance(value, str)
        }

    @property
    def delivered(self) -> dict[str, str | SecretRef]:
        """The others."""
        shown = self.shown
        return {name: value for name, value in sorted(self.variables.items()) if name not in shown}


def container_body(
    job: PreparedJob, options: DockerOptions, facts: DockerFacts, attempt: Attempt, inside: Inside
) -> dict[str, Any]:
    """The body, patched by the job's `native`."""
    body = rendered(job, options, facts, attempt, inside)
    return {**patched(body, job.spec.native), **unchangeable(body, job.spec.native)}


def rendered(
    job: PreparedJob, options: DockerOptions, facts: DockerFacts, attempt: Attempt, inside: Inside
) -> dict[str, Any]:
    spec, delivers = job.spec, bool(inside.delivered)
    script = start_script(job.command, spec.time_limit, delivers)
    argument = [] if is_long(job.command) else [job.command]
    return {
        "Image": spec.image,
        "Cmd": ["/bin/sh", "-c", script, "tao", *argument],
        "Env": [
            f"{name}={value}"
            for name, value in sorted({**inside.shown, **gpu_variables(spec, facts)}.items())
        ],
        "Labels": labels(spec, attempt, inside.gpus, inside.results),
        "StopSignal": "SIGTERM",
        **({"OpenStdin": True, "StdinOnce": True} if delivers else {}),
        **({"User": inside.user} if inside.user else {}),
        "HostConfig": host_config(spec, options, facts, inside.mounts, inside.gpus),
    }


def unchangeable(body: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """What `native` cannot touch: the labels by which we find jobs, and a terminal, which would
    show what we type.
    """
    typing = {name: body.get(name, False) for name in ("Tty", "OpenStdin", "StdinOnce")}
    return {"Labels": {**(patch.get("Labels") or {}), **body["Labels"]}, **typing}


def container_name(attempt: Attempt) -> str:
    return f"tao-job-{attempt.job_id}"


def is_shown(name: str) -> bool:
    """What `docker inspect` may show: what the GPU runtime reads before the container starts, and
    our own names.
    """
    return name.startswith("NVIDIA_") or name in (
        "TAO_JOB_ID",
        "TAO_ATTEMPT",
        "TINI_KILL_PROCESS_GROUP",
    )


def gpu_number(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> int | None:
    """How many GPUs it gets; None for all of them where nobody here sees how many that are."""
    if options.gpu_ids:
        return len(options.gpu_ids)
    return spec.gpu_count if spec.gpu_count >= 0 else len(facts.gpus) or None


def gpu_variables(spec: JobSpec, facts: DockerFacts) -> dict[str, str]:
    if spec.gpu_count == 0:
        return {"NVIDIA_VISIBLE_DEVICES": "void"}
    if facts.tegra:
        return {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}
    return {}


def chosen_gpus(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> list[int]:
    """By id where the free ones can be seen, so that two jobs do not get the same; [] leaves the
    choice to Docker.
    """
    if options.gpu_ids:
        return list(options.gpu_ids)
    if spec.gpu_count <= 0:
        return []
    free = [index for index in facts.gpus if index not in facts.held]
    return free[: spec.gpu_count] if len(free) >= spec.gpu_count else []


def labels(spec: JobSpec, attempt: Attempt, gpus: list[int], results: str) -> dict[str, str]:
    own = {
        "tao-toolkit": "true",
        "tao-sdk-backend": "local-docker",
        "tao-sdk-job-id": attempt.job_id,
        "tao-sdk-attempt": str(attempt.number),
        "tao-sdk-store": attempt.store_id,
        "tao-sdk-results": results if results.startswith("/") else "",
        "tao-sdk-gpus": ",".join(map(str, gpus)),
        "tao-sdk-time-limit": f"{spec.time_limit.total_seconds():g}" if spec.time_limit else "",
    }
    return {
        **spec.labels,
        **own,
    }  # the empty ones too: an image made of a job's container has that job's labels


def host_config(
    spec: JobSpec, options: DockerOptions, facts: DockerFacts, mounts: list[Mount], gpus: list[int]
) -> dict[str, Any]:
    size = f",size={parse_size(spec.shm_size)}" if spec.shm_size else ""
    config: dict[str, Any] = {
        "Init": True,
        "NetworkMode": network_name(spec, options, facts),
        "Mounts": [each.request() for each in mounts],
        "Tmpfs": {"/dev/shm": f"rw,nosuid,nodev,exec,mode=1777{size}"},
        "LogConfig": LOG,
    }
    if spec.memory:
        config |= {"Memory": parse_size(spec.memory), "MemorySwap": parse_size(spec.memory)}
    if spec.cpus:
        config["NanoCpus"] = max(1, int(spec.cpus * 1e9))  # 0 is no limit
    if (spec.gpu_count or options.gpu_ids) and facts.tegra:
        config["Runtime"] = "nvidia"
    elif spec.gpu_count or options.gpu_ids:
        config["DeviceRequests"] = [device_request(spec.gpu_count, gpus)]
    return config


def device_request(count: int, ids: list[int]) -> dict[str, Any]:
    which = {"DeviceIDs": [str(each) for each in ids]} if ids else {"Count": count}
    return {"Driver": "", **which, "Capabilities": [["gpu"]], "Options": {}}


def network_name(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> str:
    patch = spec.native.get("HostConfig")
    asked = (
        cast("Mapping[str, Any]", patch).get("NetworkMode") if isinstance(patch, Mapping) else ""
    )
    named = (
        asked if isinstance(asked, str) else ""
    )  # anything else is refused with the rest of `native`
    return named or options.network or facts.network or DEFAULT_NETWORK
