"""Checks: what would stop a planned container, and what its user should know. Pure."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.job.container_body import BUILT_IN_NETWORKS
from tao_sdk.backends.docker.request import DockerRequest
from tao_sdk.backends.mounts import cache_finding, unmounted_finding
from tao_sdk.model.finding import Finding, Severity, error, warning
from tao_sdk.model.plan import Plan

FEWEST_NANO_CPUS = (
    10_000_000  # a quota of 1 ms, the kernel's least, in the 100 ms that the daemon counts by
)


def check(plan: Plan[DockerRequest], facts: DockerFacts) -> list[Finding]:
    """What would stop the job (errors), and what it should know (warnings)."""
    return [
        *image_findings(plan, facts),
        *path_findings(plan, facts),
        *cache_findings(plan),
        *input_findings(facts),
        *unmounted_finding(facts.unmounted),
        *network_findings(plan, facts),
        *gpu_findings(plan, facts),
        *cpu_findings(plan),
        *open_line(
            facts.open_at,
            [*plan.secrets, *([f"the login at {facts.login}"] if facts.login else [])],
        ),
        *facts.refusals,
    ]


def open_line(address: str, secrets: Sequence[str]) -> list[Finding]:
    """Secrets do not go to a daemon at an address where everybody on the way can read them; "" is
    none such.
    """
    if not address or not secrets:
        return []
    what = f"{', '.join(secrets)} would go to {address} in the open."
    fix = (
        "Reach the daemon over ssh (DOCKER_HOST=ssh://user@host), or with TLS "
        "(DOCKER_TLS_VERIFY=1, DOCKER_CERT_PATH)."
    )
    return [
        error(
            "docker.open_line",
            what,
            "The connection has no TLS: everybody on the way can read it.",
            fix,
        )
    ]


def image_findings(plan: Plan[DockerRequest], facts: DockerFacts) -> Iterator[Finding]:
    image = plan.request.image
    if image and facts.image is None and plan.request.pull == "never":
        yield error(
            "image.missing",
            f"The daemon has no image {image}.",
            "pull is never.",
            command=f"docker pull {shlex.quote(image)}",
        )
    elif image and facts.image is None:
        yield Finding(
            Severity.OK,
            "image.pulled",
            f"{image} is not there yet: it is pulled before the job starts.",
        )


def path_findings(plan: Plan[DockerRequest], facts: DockerFacts) -> Iterator[Finding]:
    for path, why in facts.missing.items():
        if path not in plan.request.folders:
            yield error(
                "mount.missing",
                f"{path} is mounted and is not there.",
                why,
                "Correct the path, or make it.",
            )


def cache_findings(plan: Plan[DockerRequest]) -> list[Finding]:
    mounts: list[dict[str, Any]] = plan.request.host_config.get("Mounts") or []
    cache = plan.request.cache
    return cache_finding(cache, [each["Target"] for each in mounts]) if cache else []


def input_findings(facts: DockerFacts) -> Iterator[Finding]:
    """The document: a path on the host is not necessarily in the container."""
    for each in facts.inputs:
        where = (
            f"{each.path} is {each.place} on the daemon's machine."
            if each.place
            else "It lies in no mount."
        )
        if each.there is False:
            what = f"The input {each.key} will not be there: {each.path}"
            fix = (
                "Correct the path."
                if each.place
                else f"Mount it: mounts: [<folder>:{posixpath.dirname(each.path)}:ro]"
            )
            yield error(
                "input.missing",
                what,
                where + ("" if each.place else " The image does not have it."),
                fix,
            )
        elif each.there is None:
            what = f"The input {each.key} may not be there: {each.path}"
            yield warning("input.not_mounted", what,
                 f"{where} The image, which is not here yet, must have it.",
                          f"Mount it: mounts: [<folder>:{posixpath.dirname(each.path)}:ro]")  # fmt: skip


def network_findings(plan: Plan[DockerRequest], facts: DockerFacts) -> Iterator[Finding]:
    name = plan.request.network
    known = (*facts.networks, *BUILT_IN_NETWORKS)
    if not plan.request.make_network and name not in known and not name.startswith("container:"):
        create = f"docker network create {shlex.quote(name)}"
        yield error(
            "network.missing",
            f"There is no docker network {name}.",
            f"network {name} not found",
            command=create,
        )


def gpu_findings(plan: Plan[DockerRequest], facts: DockerFacts) -> Iterator[Finding]:
    """GPUs that are not there stop the job, GPUs that others use do not. Nothing is known where
    none can be seen.
    """
    given: Any = plan.request.host_config.get("DeviceRequests")  # `native` may have anything there
    asked: list[dict[str, Any]] = [each for each in given or () if isinstance(each, dict)]
    ids = [
        int(each)
        for request in asked
        for each in request.get("DeviceIDs") or ()
        if str(each).isdigit()
    ]
    count = max((request.get("Count") or 0 for request in asked), default=0)
    wanted = list(facts.gpus) if count < 0 else ids or list(facts.gpus[:count])
    there = ", ".join(map(str, facts.gpus))
    if facts.gpus and (count > len(facts.gpus) or set(ids) - set(facts.gpus)):
        what = "The job asks for GPUs that this machine does not have."
        yield error(
            "gpu.missing", what, f"It has: {there}.", f"Ask for at most --gpus {len(facts.gpus)}."
        )
    elif held := [f"GPU {index}: {facts.held[index]}" for index in wanted if index in facts.held]:
        what = "GPUs that the job will get are in use by other containers."
        yield warning("gpu.busy", what, ", ".join(held), command="docker ps")


def cpu_findings(plan: Plan[DockerRequest]) -> Iterator[Finding]:
    """What the daemon takes and the kernel refuses once the container starts."""
    asked: Any = plan.request.host_config.get("NanoCpus")  # `native` may have anything there
    if isinstance(asked, int) and 0 < asked < FEWEST_NANO_CPUS:
        why = "The kernel gives a container at least 1 ms of every 100 ms of a CPU."
        yield error(
            "cpus.too_few",
            f"{asked / 1e9:g} CPUs are too few.",
            why,
            "Ask for --cpus 0.01 or more.",
        )
