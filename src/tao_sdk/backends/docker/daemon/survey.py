"""Looking at a daemon, and at this machine, for what a job needs to know."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tao_sdk.backends.containers import window
from tao_sdk.backends.containers.files import FarFiles, HereFiles
from tao_sdk.backends.contract import Files
from tao_sdk.backends.docker.daemon.address import is_local, is_open
from tao_sdk.backends.docker.daemon.gpus import held_gpus, visible_gpus
from tao_sdk.backends.docker.facts import DockerFacts, SeenInput
from tao_sdk.backends.docker.job.container_body import (
    BUILT_IN_NETWORKS,
    DEFAULT_NETWORK,
    network_name,
)
from tao_sdk.backends.docker.job.places import RESULTS, named_mounts
from tao_sdk.backends.docker.options import PULL, DockerOptions
from tao_sdk.backends.mounts import Mount, mount_of, read_mounts, within
from tao_sdk.model.errors import PathNotFound, SpecError
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.settings import Settings
from tao_sdk.transports.dockerd import Daemon, DaemonError

MOST_LOOKED_FOR = 20  # of a spec's paths in an image: each is a request


def survey(
    daemon: Daemon,
    settings: Settings,
    job: PreparedJob,
    options: DockerOptions,
    image: Mapping[str, Any] | None,
) -> DockerFacts:
    """All that is looked at before a job is planned."""
    spec = job.spec
    caller = surroundings(settings, is_local(daemon.address))
    mounts = read_mounts(spec.mounts, caller.cwd, caller.home)
    paths = [each.source for each in mounts if not each.volume] + [
        caller.ssh_path
    ] * options.ssh_key
    names = [each.source for each in mounts if each.volume]
    files = HereFiles(daemon) if caller.local else FarFiles(daemon)
    info = daemon.info()
    gpus = visible_gpus() if caller.local and (spec.gpu_count or options.gpu_ids) else {}
    facts = replace(
        caller,
        info=info,
        image=image,
        open_at=daemon.address.url if is_open(daemon.address) else "",
        missing=missing(files, paths),
        volumes=volumes(daemon, info, names),
        gpus=tuple(gpus),
        held=held_gpus(daemon, gpus) if gpus else {},
    )
    named = named_mounts(job, options, facts)
    return replace(
        facts,
        networks=networks(daemon, network_name(spec, options, facts)),
        inputs=tuple(inputs(daemon, files, job, facts, named)),
        unmounted=tuple(unmounted(daemon, job, facts, named)),
    )


def surroundings(settings: Settings, local: bool) -> DockerFacts:
    """What is to be known of the caller alone."""
    home = str(settings.home)
    return DockerFacts(
        local=local,
        cwd=str(Path.cwd()),
        home=home,
        uid=os.getuid(),
        gid=os.getgid(),
        network=settings.get("DOCKER_NETWORK") or "",
        pull=pull_policy(settings),
        auto_remove=(settings.get("DOCKER_AUTO_REMOVE") or "").lower() in ("1", "true", "yes"),
        ssh_path=settings.get("HOST_SSH_PATH") or f"{home}/.ssh",
    )


def pull_policy(settings: Settings) -> str:
    policy = settings.get("DOCKER_PULL_POLICY") or "missing"
    if policy not in PULL:
        raise SpecError(
            f"DOCKER_PULL_POLICY is {policy!r}.", "", f"It must be one of {', '.join(PULL)}."
        )
    return policy


def image(daemon: Daemon, name: str) -> Mapping[str, Any] | None:
    if not name:
        return None
    try:
        return daemon.get(f"/images/{name}/json")
    except DaemonError as error:
        if error.status in (400, 404):
            return None
        raise


def networks(daemon: Daemon, wanted: str) -> tuple[str, ...]:
    """Those that are there; not asked for where the one that is wanted is there, or will be made,
    in any case.
    """
    if wanted in (DEFAULT_NETWORK, *BUILT_IN_NETWORKS):
        return ()
    return tuple(each["Name"] for each in daemon.get("/networks"))


def missing(files: Files, paths: list[str]) -> dict[str, str]:
    """Those of the paths that the daemon's machine does not have, and why."""
    found: dict[str, str] = {}
    for path in paths:
        try:
            files.stat(path)
        except PathNotFound as error:
            found[path] = error.what
    return found


def volumes(daemon: Daemon, info: Mapping[str, Any], names: list[str]) -> dict[str, str]:
    """Volume -> its folder on the daemon's machine, also of one that the job will make."""
    there = window.volumes(daemon) if names else {}
    return {
        name: there.get(name) or f"{info['DockerRootDir']}/volumes/{name}/_data" for name in names
    }


def inputs(
    daemon: Daemon, files: Files, job: PreparedJob, facts: DockerFacts, mounts: list[Mount]
) -> Iterator[SeenInput]:
    """What is known of each declared input. What a mount has that is missing itself, or is a
    volume, is not looked at.
    """
    unmounted: dict[str, str] = {}
    for key, path in job.absolute_inputs().items():
        under = mount_of(mounts, path)
        if under is None:
            unmounted[key] = path
        elif not under.volume and under.source not in facts.missing:
            place = under.on_host(path, {})
            yield SeenInput(key, path, place, not missing(files, [place]))
    has = in_image(daemon, job.spec.image, list(unmounted.values())) if facts.image else {}
    for key, path in unmounted.items():
        yield SeenInput(key, path, "", has.get(path))


def unmounted(
    daemon: Daemon, job: PreparedJob, facts: DockerFacts, mounts: list[Mount]
) -> list[tuple[str, str]]:
    """(key, path) of what the spec names, nobody declares, and neither a mount nor
    the image has.
    """
    outside = [
        (key, path)
        for key, path in job.data.undeclared
        if mount_of(mounts, path) is None and not within(path, RESULTS)
    ]
    looked_for = [path for _, path in outside[:MOST_LOOKED_FOR]]
    has = in_image(daemon, job.spec.image, looked_for) if facts.image else {}
    return [(key, path) for key, path in outside if not has.get(path)]


def in_image(daemon: Daemon, image: str, paths: list[str]) -> dict[str, bool]:
    """Path -> whether the image has it; empty where the image is gone."""
    if not paths:
        return {}
    try:
        there = window.open_window(daemon, image)
    except DaemonError as error:
        if error.status == 404:
            return {}
        raise
    try:
        return {path: there.stat(path) is not None for path in paths}
    finally:
        there.close()
