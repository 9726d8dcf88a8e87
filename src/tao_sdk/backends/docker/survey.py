"""Looking at a daemon, and at this machine, for what a job needs to know."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tao_sdk.backends.docker.address import is_local
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.gpus import held_gpus, visible_gpus
from tao_sdk.backends.docker.mounts import read_mounts
from tao_sdk.backends.docker.options import PULL, DockerOptions
from tao_sdk.model.errors import SpecError
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.transports.dockerd import Daemon, DaemonError


def survey(daemon: Daemon, settings: Settings, spec: JobSpec, options: DockerOptions) -> DockerFacts:
    local = is_local(daemon.address)
    cwd, home = str(Path.cwd()), str(settings.home)
    ssh = settings.get("HOST_SSH_PATH") or f"{home}/.ssh"
    paths = [each.source for each in read_mounts(spec.mounts, cwd, home) if not each.volume]
    gpus = visible_gpus() if local and (spec.gpu_count or options.gpu_ids) else {}
    return DockerFacts(
        local=local,
        cwd=cwd,
        home=home,
        uid=os.getuid(),
        gid=os.getgid(),
        info=daemon.info(),
        image=image(daemon, spec.image),
        networks=tuple(each["Name"] for each in daemon.get("/networks")),
        network=settings.get("DOCKER_NETWORK") or "",
        pull=pull_policy(settings),
        auto_remove=(settings.get("DOCKER_AUTO_REMOVE") or "").lower() in ("1", "true", "yes"),
        ssh_path=ssh,
        missing=missing([*paths, *([ssh] if options.ssh_key else [])]) if local else {},
        gpus=tuple(gpus),
        held=held_gpus(daemon, gpus) if gpus else {},
    )


def pull_policy(settings: Settings) -> str:
    policy = settings.get("DOCKER_PULL_POLICY") or "missing"
    if policy not in PULL:
        raise SpecError(f"DOCKER_PULL_POLICY is {policy!r}.", "", f"It must be one of {', '.join(PULL)}.")
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


def missing(paths: list[str]) -> dict[str, str]:
    """Those of the paths that this machine does not have. What we may not look at is the daemon's to judge."""
    found: dict[str, str] = {}
    for path in paths:
        try:
            os.stat(path)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError) as error:
            found[path] = str(error.strerror)
        except OSError:
            continue
    return found
