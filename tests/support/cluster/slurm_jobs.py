"""Jobs of a caller who knows the tests' cluster: submit one, wait for its state, find its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.cluster import known_here
from support.cluster.cluster_here import Cluster, until
from tao_sdk.backends.slurm.backend import SlurmBackend
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


def surroundings(cluster: Cluster, folder: Path, **more: str) -> dict[str, str]:
    own = {
        "TAO_SDK_STATE_DIR": str(folder / "state"),
        "HOME": str(folder),
        "SLURM_PARTITION": "grizzly",
        "SLURM_POLL_SECONDS": "1",
    }
    return {**cluster.surroundings(), **own, **more}


def known_client(cluster: Cluster, tmp_path: Path) -> Iterator[Client]:
    """The cluster is known, and the connection is open."""
    here = surroundings(cluster, tmp_path)
    known_here.keep(here, tmp_path / "state")
    with Client(settings=Settings(here)) as client:
        backend_of(client).ssh.run("true")
        yield client


def job(command: str, **more: Any) -> JobSpec:
    return JobSpec(command=command, **{"name": "life", "gpu_count": 0, "cpus": 1, **more})


def submit(client: Client, command: str, options: dict[str, Any] | None = None, **more: Any) -> Job:
    return client.submit(job(command, **more), "slurm", options).job


def backend_of(client: Client) -> SlurmBackend:
    backend = client.engine.backend("slurm")
    assert isinstance(backend, SlurmBackend)
    return backend


def slurm_id(client: Client, made: Job) -> str:
    ref = client.engine.ref_of(made)
    assert ref is not None
    return ref.native_id


def until_running(client: Client, made: Job) -> None:
    until(
        lambda: client.get_job(made.id).status is Status.RUNNING,
        words=lambda: str(client.get_job(made.id)),
    )


def until_ended(client: Client, made: Job, seconds: float = 60) -> Job:
    until(
        lambda: client.get_job(made.id).status.terminal,
        seconds,
        lambda: str(client.get_job(made.id)),
    )
    return client.get_job(made.id)


def folder(cluster: Cluster, made: Job) -> Path:
    return cluster.path(str(made.backend_details["job_dir"]))
