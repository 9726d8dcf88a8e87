"""Containers: a real daemon for the bench, and raw containers beside ours, through the same API and
nothing else.

The daemon is the tests' own, with images made on this machine; see
tests/support/dockerd/dockerd_here.py.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.contenders import Missing
from bench.folder import ROOT
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.transports.dockerd import Address, Daemon

IMAGE = "tao-test-python"  # a Debian with bash and python3
PATIENCE_SECONDS = 60


def daemon_here() -> Daemon:
    """Raises Missing where there is none and none can be started."""
    sys.path.append(str(ROOT / "tests"))
    import pytest

    from support.dockerd import dockerd_here

    try:
        return Daemon(Address(dockerd_here.host()))
    except (pytest.skip.Exception, pytest.fail.Exception) as reason:
        raise Missing(str(reason)) from reason


class Containers:
    """A client of ours and a daemon to speak with directly. What was started is
    removed at the end.
    """

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon, self.folder = daemon, folder
        self.state_file = folder / "state" / "jobs.db"
        self.environ: Mapping[str, str] = {**os.environ, "DOCKER_HOST": daemon.address.url}
        self.client = Client(self.state_file, settings=Settings(self.environ))
        self.raw: list[str] = []

    def __enter__(self) -> Containers:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        self.client.close()

    def clear(self) -> None:
        for job in self.client.list_jobs():
            self.client.cancel_job(job.id, grace=0)
            self.client.remove(job.id)
        while self.raw:
            self.daemon.ask("DELETE", f"/containers/{self.raw.pop()}", force=1, v=1)

    def submit(self, command: str, **more: Any) -> Job:
        spec = JobSpec(name="bench", image=IMAGE, command=command, gpu_count=0, **more)
        return self.client.submit(spec, "docker").job

    def start(self, command: str, network: str, mounts: list[dict[str, Any]] | None = None) -> str:
        """What anybody would do who has the API and one command."""
        host = {"Init": True, "NetworkMode": network, "Mounts": mounts or []}
        body = {
            "Image": IMAGE,
            "Cmd": ["/bin/bash", "-c", command],
            "Env": ["WHO=bench"],
            "HostConfig": host,
        }
        made = self.daemon.ask(
            "POST", "/containers/create", body, name=f"bench-{uuid.uuid4().hex}"
        )["Id"]
        self.raw.append(made)
        self.daemon.ask("POST", f"/containers/{made}/start")
        return made

    def network_of(self, job: Job) -> str:
        return self.daemon.get(f"/containers/{container(job)}/json")["HostConfig"]["NetworkMode"]

    def ended(self, job: Job) -> str:
        """The job's id, once it has ended well."""
        seen = self.client.wait(job.id)
        if seen.status != "Complete":
            raise RuntimeError(f"{job.id} ended in {seen.status}: {seen.message}")
        return job.id

    def wait_for(self, job: Job, words: str) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while words not in self.client.get_job_logs(job.id):
            if time.monotonic() > until:
                raise TimeoutError(f"{job.id} never said {words!r}.")
            time.sleep(0.02)


def container(job: Job) -> str:
    return f"tao-job-{job.id}"
