"""Survey: look at a daemon and at this machine for the facts that a job's plan needs."""

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
from tao_sdk.backends.docker.daemon.gpus import find_busy_gpus, visible_gpus
from tao_sdk.backends.docker.facts import DockerFacts, SeenInput
from tao_sdk.backends.docker.job.container_body import (
    BUILT_IN_NETWORKS,
    DEFAULT_NETWORK,
    choose_network,
)
from tao_sdk.backends.docker.job.places import loses_results, requested_mounts
from tao_sdk.backends.docker.options import PULL, DockerOptions
from tao_sdk.backends.mounts import Mount, mount_of, read_mounts, within
from tao_sdk.backends.results_place import RESULTS
from tao_sdk.model.errors import PathNotFound, SpecError
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.settings import Settings
from tao_sdk.transports.dockerd import Daemon, DaemonError

MOST_LOOKED_FOR = 20  # the most paths of a spec to check in an image: each is a request


def survey(
    daemon: Daemon,
    settings: Settings,
    job: PreparedJob,
    options: DockerOptions,
    image: Mapping[str, Any] | None,
) -> DockerFacts:
    """Collect all facts before a job is planned."""
    caller = caller_facts(settings, is_local(daemon.address))
    files = HereFiles(daemon) if caller.local else FarFiles(daemon)
    facts = add_daemon_facts(caller, daemon, files, job, options)
    facts = replace(facts, image=image)
    mounts = requested_mounts(job, options, facts)
    return replace(
        facts,
        networks=network_names(daemon, choose_network(job.spec, options, facts)),
        inputs=tuple(look_at_inputs(daemon, files, job, facts, mounts)),
        unmounted=tuple(unmounted_paths(daemon, job, facts, mounts)),
        loses_results=loses_results(job, mounts),
    )


def caller_facts(settings: Settings, local: bool) -> DockerFacts:
    """The facts known without the daemon: the caller's ids, folders and settings."""
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


def assumed_facts(
    daemon: Daemon, settings: Settings, job: PreparedJob, options: DockerOptions
) -> DockerFacts:
    """Facts for a daemon that does not answer: assume that it has the job's image and network."""
    caller = caller_facts(settings, is_local(daemon.address))
    mounts = requested_mounts(job, options, caller)
    return replace(
        caller,
        image={},
        networks=(choose_network(job.spec, options, caller),),
        plaintext_address=open_address(daemon),
        loses_results=loses_results(job, mounts),
    )


def open_address(daemon: Daemon) -> str:
    """The daemon's address if anyone on the way can read what is sent, else ""."""
    return daemon.address.url if is_open(daemon.address) else ""


def pull_policy(settings: Settings) -> str:
    policy = settings.get("DOCKER_PULL_POLICY") or "missing"
    if policy not in PULL:
        raise SpecError(
            f"DOCKER_PULL_POLICY is {policy!r}.", "", f"It must be one of {', '.join(PULL)}."
        )
    return policy


def add_daemon_facts(
    caller: DockerFacts, daemon: Daemon, files: Files, job: PreparedJob, options: DockerOptions
) -> DockerFacts:
    """The caller's facts plus the daemon's: paths, volumes and GPUs of its machine."""
    mounts = read_mounts(job.spec.mounts, caller.cwd, caller.home)
    paths = [mount.source for mount in mounts if not mount.volume]
    if options.ssh_key:
        paths.append(caller.ssh_path)
    volumes = [mount.source for mount in mounts if mount.volume]
    info = daemon.info()
    facts = replace(
        caller,
        info=info,
        plaintext_address=open_address(daemon),
        missing=missing_paths(files, paths),
        volumes=volume_folders(daemon, info, volumes),
        folders_here=folders_here(caller, volumes),
    )
    return add_gpus(facts, daemon, job, options)


def add_gpus(
    facts: DockerFacts, daemon: Daemon, job: PreparedJob, options: DockerOptions
) -> DockerFacts:
    """The facts with this machine's GPUs, if the job wants some and the daemon is here."""
    wants_gpus = job.spec.gpu_count or options.gpu_ids
    if not (facts.local and wants_gpus):
        return facts
    gpus = visible_gpus()
    if not gpus:
        return facts
    return replace(facts, gpus=tuple(gpus), busy_gpus=find_busy_gpus(daemon, gpus))


def inspect_image(daemon: Daemon, name: str) -> Mapping[str, Any] | None:
    if not name:
        return None
    try:
        return daemon.get(f"/images/{name}/json")
    except DaemonError as error:
        if error.status in (400, 404):
            return None
        raise


def network_names(daemon: Daemon, wanted: str) -> tuple[str, ...]:
    """The daemon's networks; () without a request if submit makes the network or it is built in."""
    if wanted in (DEFAULT_NETWORK, *BUILT_IN_NETWORKS):
        return ()
    return tuple(network["Name"] for network in daemon.get("/networks"))


def missing_paths(files: Files, paths: list[str]) -> dict[str, str]:
    """Path -> reason, for the paths that the daemon's machine does not have."""
    missing: dict[str, str] = {}
    for path in paths:
        try:
            files.stat(path)
        except PathNotFound as error:
            missing[path] = error.what
    return missing


def folders_here(caller: DockerFacts, names: list[str]) -> tuple[str, ...]:
    """The names that are also folders in the working directory; none for a remote daemon."""
    if not caller.local:
        return ()
    return tuple(name for name in names if Path(caller.cwd, name).is_dir())


def volume_folders(daemon: Daemon, info: Mapping[str, Any], names: list[str]) -> dict[str, str]:
    """Volume -> its folder on the daemon's machine, even if the job will create the volume."""
    if not names:
        return {}
    folders = window.list_volumes(daemon)
    return {
        name: folders.get(name) or f"{info['DockerRootDir']}/volumes/{name}/_data" for name in names
    }


def look_at_inputs(
    daemon: Daemon, files: Files, job: PreparedJob, facts: DockerFacts, mounts: list[Mount]
) -> Iterator[SeenInput]:
    """Check each declared input: does it exist?

    Skips inputs in a volume, and inputs in a mount that is itself missing.
    """
    outside: dict[str, str] = {}
    for key, path in job.absolute_inputs().items():
        mount = mount_of(mounts, path)
        if mount is None:
            outside[key] = path
        elif not mount.volume and mount.source not in facts.missing:
            host_path = mount.on_host(path, {})
            exists = not missing_paths(files, [host_path])
            yield SeenInput(key, path, host_path, exists)
    in_image = look_into_image(daemon, job, facts, list(outside.values()))
    for key, path in outside.items():
        yield SeenInput(key, path, "", in_image.get(path))


def unmounted_paths(
    daemon: Daemon, job: PreparedJob, facts: DockerFacts, mounts: list[Mount]
) -> list[tuple[str, str]]:
    """Return (key, path) of the spec's undeclared paths that neither a mount nor the image has."""
    outside: list[tuple[str, str]] = []
    for key, path in (*job.data.undeclared, *job.data.shared):
        if mount_of(mounts, path) is None and not within(path, RESULTS):
            outside.append((key, path))
    first_paths = [path for _, path in outside[:MOST_LOOKED_FOR]]
    in_image = look_into_image(daemon, job, facts, first_paths)
    return [(key, path) for key, path in outside if not in_image.get(path)]


def look_into_image(
    daemon: Daemon, job: PreparedJob, facts: DockerFacts, paths: list[str]
) -> dict[str, bool]:
    """Path -> True if the job's image has it. Empty if the daemon does not have the image."""
    if not paths or facts.image is None:
        return {}
    try:
        image_window = window.open_window(daemon, job.spec.image)
    except DaemonError as error:
        if error.status == 404:
            return {}
        raise
    try:
        return {path: image_window.stat_path(path) is not None for path in paths}
    finally:
        image_window.close()
