"""Checks: what would stop a planned container, and what its user should know. Pure."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tao_sdk.backends.docker.facts import DockerFacts, SeenInput
from tao_sdk.backends.docker.job.container_body import BUILT_IN_NETWORKS
from tao_sdk.backends.docker.request import DockerRequest
from tao_sdk.backends.docker.rules import OF_REGISTRIES
from tao_sdk.backends.mounts import cache_finding, unmounted_finding
from tao_sdk.model.finding import Finding, Severity, error, warning
from tao_sdk.model.plan import Plan

# The kernel's smallest CPU quota is 1 ms, and the daemon's period is 100 ms.
FEWEST_NANO_CPUS = 10_000_000

# the kernel's names of architectures -> those of images
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}

# Codes of the registry's answers that mean: the image cannot be pulled, or nobody knows.
NOT_PULLED = (*OF_REGISTRIES, "image.registry_silent")


def check(plan: Plan[DockerRequest], facts: DockerFacts) -> list[Finding]:
    """Errors that would stop the job, and warnings that its user should read."""
    return [
        *image_findings(plan, facts),
        *path_findings(plan, facts),
        *volume_findings(facts),
        *cache_findings(plan),
        *input_findings(facts),
        *unmounted_finding(facts.unmounted),
        *results_findings(facts),
        *network_findings(plan, facts),
        *gpu_findings(plan, facts),
        *cpu_findings(plan),
        *line_findings(facts.plaintext_address, names_of_secrets(plan, facts)),
        *facts.refusals,
    ]


def names_of_secrets(plan: Plan[DockerRequest], facts: DockerFacts) -> list[str]:
    """The names of the secrets that submit sends to the daemon."""
    names = list(plan.secrets)
    if facts.login_registry:
        names.append(f"the login at {facts.login_registry}")
    return names


def line_findings(plaintext_address: str, secrets: Sequence[str]) -> list[Finding]:
    """An error if secrets would be sent without encryption. "" means that nobody can read along."""
    if not plaintext_address or not secrets:
        return []
    return [
        error(
            "docker.open_line",
            f"{', '.join(secrets)} would be sent to {plaintext_address} unencrypted.",
            "The connection has no TLS: anyone on the way can read it.",
            "Reach the daemon over ssh (DOCKER_HOST=ssh://user@host), or with TLS "
            "(DOCKER_TLS_VERIFY=1, DOCKER_CERT_PATH).",
        )
    ]


def image_findings(plan: Plan[DockerRequest], facts: DockerFacts) -> Iterator[Finding]:
    image = plan.request.image
    if facts.image is not None:
        yield from architecture_findings(image, facts.image, facts)
        return
    if not image:
        return
    if plan.request.pull == "never":
        near = near_words(facts.near_images)
        yield error(
            "image.missing",
            f"The daemon has no image {image}.",
            "pull is never.",
            f"{near} To pull it:" if near else "",
            command=f"docker pull {shlex.quote(image)}",
        )
        return
    if any(refusal.code in NOT_PULLED for refusal in facts.refusals):
        return
    what = f"{image} is not on the daemon's machine yet. It is pulled before the job starts."
    yield Finding(Severity.OK, "image.pulled", what)


def architecture_findings(
    name: str, image: Mapping[str, Any], facts: DockerFacts
) -> Iterator[Finding]:
    """A warning for an image of another architecture. No error: the machine may emulate it."""
    machine = str(facts.info.get("Architecture") or "")
    machine = ARCHITECTURES.get(machine, machine)
    made_for = str(image.get("Architecture") or "")
    if made_for and machine and made_for != machine:
        yield warning(
            "image.architecture",
            f"{name} is made for {made_for}; the machine of the daemon is {machine}.",
            "Its programs run only where the machine emulates them (exec format error).",
            f"Name an image for {machine}.",
        )


def near_words(names: tuple[str, ...]) -> str:
    """`Did you mean python:3.12?`; "" for none."""
    if not names:
        return ""
    return f"Did you mean {' or '.join(names)}?"


def path_findings(plan: Plan[DockerRequest], facts: DockerFacts) -> Iterator[Finding]:
    """An error for each missing mounted path, except the folders that submit makes."""
    for path, why in facts.missing.items():
        if path in plan.request.folders:
            continue
        yield error(
            "mount.missing",
            f"{path} is mounted and is not there.",
            why,
            "Correct the path, or make it.",
        )


def volume_findings(facts: DockerFacts) -> Iterator[Finding]:
    """A warning for each volume that has the name of a folder here: the folder may be meant."""
    for name in facts.folders_here:
        yield warning(
            "mount.volume_or_folder",
            f"{name} is mounted as a volume of the daemon, not as the folder here.",
            "A source without a slash is a volume.",
            f"To mount the folder: --mounts ./{name}:DST",
        )


def cache_findings(plan: Plan[DockerRequest]) -> list[Finding]:
    if not plan.request.cache:
        return []
    mounts: list[dict[str, Any]] = plan.request.host_config.get("Mounts") or []
    return cache_finding(plan.request.cache, [mount["Target"] for mount in mounts])


# Inputs


def input_findings(facts: DockerFacts) -> Iterator[Finding]:
    """Findings for inputs that the container lacks. It may lack a path that the host has."""
    for seen in facts.inputs:
        if seen.exists is None:
            yield unseen_input(seen, facts.local)
        elif not seen.exists:
            yield missing_input(seen, facts.local)


def unseen_input(seen: SeenInput, local: bool) -> Finding:
    """A warning for an input that only the image may have, while the image is not pulled yet."""
    return warning(
        "input.not_mounted",
        f"The input {seen.key} may not be there: {seen.path}",
        "It lies in no mount. The image must have it, and is not pulled yet.",
        advice_to_mount(seen.path, local),
    )


def missing_input(seen: SeenInput, local: bool) -> Finding:
    what = f"The input {seen.key} will not be there: {seen.path}"
    if seen.host_path:
        where = f"{seen.path} is {seen.host_path} on the daemon's machine."
        return error("input.missing", what, where, "Correct the path.")
    where = "It lies in no mount. The image does not have it."
    return error("input.missing", what, where, advice_to_mount(seen.path, local))


def advice_to_mount(path: str, local: bool) -> str:
    """Advice with the mount that an input needs. `local`: the daemon sees this machine's paths."""
    target = posixpath.dirname(path)
    source = target if local else "<folder>"
    return f"Mount it: mounts: [{source}:{target}:ro]"


def results_findings(facts: DockerFacts) -> Iterator[Finding]:
    if facts.loses_results:
        yield warning(
            "output.ephemeral",
            "The results stay in the container and are lost with it.",
            "No mount holds /results, and no bucket is named.",
            "Mount a folder at /results to keep them.",
        )


# The network


def network_findings(plan: Plan[DockerRequest], facts: DockerFacts) -> Iterator[Finding]:
    name = plan.request.network
    if plan.request.make_network or name.startswith("container:"):
        return
    if name in facts.networks or name in BUILT_IN_NETWORKS:
        return
    yield error(
        "network.missing",
        f"There is no docker network {name}.",
        f"network {name} not found",
        command=f"docker network create {shlex.quote(name)}",
    )


# GPUs and CPUs


def gpu_findings(plan: Plan[DockerRequest], facts: DockerFacts) -> Iterator[Finding]:
    """An error for GPUs that are not there, a warning for GPUs that other containers use.

    Nothing if no GPU can be seen from here.
    """
    if not facts.gpus:
        return
    ids, count = requested_gpus(plan.request)
    if count > len(facts.gpus) or set(ids) - set(facts.gpus):
        yield missing_gpus(facts)
        return
    job_gpus = ids or first_gpus(facts, count)
    busy = [index for index in job_gpus if index in facts.busy_gpus]
    if busy:
        yield busy_gpus(facts, busy)


def first_gpus(facts: DockerFacts, count: int) -> tuple[int, ...]:
    """The GPUs that Docker gives for a count: the first ones, or all for -1."""
    if count < 0:
        return facts.gpus
    return facts.gpus[:count]


def requested_gpus(request: DockerRequest) -> tuple[list[int], int]:
    """Return (the GPU ids that the container asks for, a count). A count of -1 means all GPUs."""
    ids: list[int] = []
    counts: list[int] = []
    for device in requested_devices(request):
        texts = map(str, device.get("DeviceIDs") or ())
        ids += map(int, filter(str.isdigit, texts))
        counts.append(device.get("Count") or 0)
    return ids, max(counts, default=0)


def requested_devices(request: DockerRequest) -> list[dict[str, Any]]:
    """The container's device requests.

    They may come from the job's `native`, so their shape is not certain.
    """
    devices: Any = request.host_config.get("DeviceRequests") or ()
    return [device for device in devices if isinstance(device, dict)]


def busy_gpus(facts: DockerFacts, indices: list[int]) -> Finding:
    users = [f"GPU {index}: {facts.busy_gpus[index]}" for index in indices]
    return warning(
        "gpu.busy",
        "GPUs that the job will get are in use by other containers.",
        ", ".join(users),
        command="docker ps",
    )


def missing_gpus(facts: DockerFacts) -> Finding:
    return error(
        "gpu.missing",
        "The job asks for GPUs that this machine does not have.",
        f"It has: {', '.join(map(str, facts.gpus))}.",
        f"Ask for at most gpu_count={len(facts.gpus)}.",
    )


def cpu_findings(plan: Plan[DockerRequest]) -> Iterator[Finding]:
    """An error for a CPU limit that the daemon accepts and the kernel refuses at the start."""
    nano_cpus: Any = plan.request.host_config.get("NanoCpus")  # `native` may set any value
    if isinstance(nano_cpus, int) and 0 < nano_cpus < FEWEST_NANO_CPUS:
        yield error(
            "cpus.too_few",
            f"{nano_cpus / 1e9:g} CPUs are too few.",
            "The kernel gives a container at least 1 ms of every 100 ms of a CPU.",
            "Ask for cpus=0.01 or more.",
        )
