"""Two clusters that config.yaml names (here two login nodes of one), and this machine, in one store
and one process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cluster import cluster_here, known_here
from support.cluster.cluster_here import Cluster
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

OF_ONE_CLUSTER = (
    "SLURM_HOSTNAME",
    "SLURM_PARTITION",
    "SLURM_ACCOUNT",
    "SLURM_BASE_RESULTS_DIR",
    "SSH_KEY_PATH",
    "SLURM_USER",
)


@pytest.fixture
def named(surroundings: dict[str, str]) -> dict[str, str]:
    """Somebody whose config.yaml says all that is to be said of two clusters, and whose settings
    say nothing.
    """
    for host in cluster_here.LOGIN_NODES:
        known_here.keep(
            {**surroundings, "SLURM_HOSTNAME": host}, Path(surroundings["TAO_SDK_STATE_DIR"])
        )
    config = Path(surroundings["HOME"], ".config/tao/config.yaml")
    config.parent.mkdir(parents=True)
    shared = {
        name.removeprefix("SLURM_").lower(): surroundings[name] for name in OF_ONE_CLUSTER[1:]
    }
    lines = [f"    {key}: {value}" for key, value in shared.items()]
    for host, name in zip(cluster_here.LOGIN_NODES, ("lab", "far"), strict=True):
        entry = ["endpoints:"] if name == "lab" else []
        with config.open("a") as file:
            file.write(
                "\n".join(
                    [
                        *entry,
                        f"  {name}:",
                        "    platform: slurm",
                        f"    hostname: {host}",
                        *lines,
                        "",
                    ]
                )
            )
    return {name: value for name, value in surroundings.items() if name not in OF_ONE_CLUSTER}


def submit(client: Client, place: str, command: str) -> Job:
    return client.submit(JobSpec(command=command, gpu_count=0), place).job


def test_jobs_of_two_clusters_and_of_this_machine_live_in_one_process(
    named: dict[str, str], cluster: Cluster
) -> None:
    with Client(settings=Settings(named)) as client:
        jobs = {
            place: submit(client, place, f"echo on {place}; sleep 60")
            for place in ("lab", "far", "local")
        }
        for place, job in jobs.items():
            cluster_here.until(
                lambda job=job, place=place: f"on {place}" in client.get_job_logs(job.id), 60
            )
        assert {job.endpoint_name: job.platform for job in client.list_jobs()} == {
            "lab": "slurm", "far": "slurm", "": "local"
        }  # fmt: skip
        assert [job.id for job in client.list_jobs(platform="far")] == [jobs["far"].id]
        with cluster.login_node_down("login2"):
            seen = {job.id: job for job in client.list_jobs()}
            assert "not seen now" in seen[jobs["far"].id].message
            assert "login2" in seen[jobs["far"].id].message
            assert "not seen now" not in seen[jobs["lab"].id].message
        for job in jobs.values():
            assert client.cancel_job(job.id, grace=1)


def test_a_job_of_a_cluster_is_reached_by_settings_that_name_no_cluster(
    surroundings: dict[str, str],
) -> None:
    with Client(settings=Settings(surroundings)) as client:
        job = submit(client, "slurm", "echo there; sleep 60")
    nothing = {name: value for name, value in surroundings.items() if name not in OF_ONE_CLUSTER}
    with Client(settings=Settings(nothing)) as client:
        cluster_here.until(lambda: "there" in client.get_job_logs(job.id))
        assert client.get_job(job.id).status is Status.RUNNING
        assert client.cancel_job(job.id, grace=1)
        assert client.remove(job.id)
