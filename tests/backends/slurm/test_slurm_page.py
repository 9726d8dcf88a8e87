"""The page about the platform: its tables say what is so."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from cluster_files import OTHER_USER
from cluster_here import Cluster, until
from cluster_images import PYTHON, dockerd_here

from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.client import Client
from tao_sdk.model.credentials import KNOWN_NAMES
from tao_sdk.model.errors import TaoError
from tao_sdk.model.fields import settings_of
from tao_sdk.model.job import Job
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

PAGE = dockerd_here.ROOT / "docs" / "slurm.md"


def rows(heading: str) -> list[list[str]]:
    below = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in below.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_option_has_its_row() -> None:
    assert [row[0].strip("`") for row in rows("Options")] == list(settings_of(SlurmOptions))


def test_every_setting_has_its_row() -> None:
    told = {name for row in rows("Settings") for name in re.findall(r"`([A-Z0-9_]+)`", row[0])}
    assert told == {name for name in KNOWN_NAMES if name.startswith(("SLURM_", "SSH_"))} | {"TAO_SSH_CONFIG"}


def submitted(client: Client, command: str = "sleep 300") -> Job:
    return client.submit(JobSpec(image=PYTHON, command=command, gpu_count=0, cpus=1), "slurm").job


def queued(client: Client, cluster: Cluster) -> Job:
    """Every CPU of its partition is taken."""
    cluster.login("sbatch --exclusive -N2 -p polar -o /dev/null --wrap 'sleep 300'")
    job = submitted(client)
    assert client.get_job(job.id).status is Status.PENDING
    return job


def running(client: Client, cluster: Cluster) -> Job:
    job = submitted(client)
    until(lambda: client.get_job(job.id).status is Status.RUNNING)
    return job


def over(client: Client, cluster: Cluster) -> Job:
    job = submitted(client, "true")
    client.wait(job.id, timeout=60)
    return job


SITUATIONS: dict[str, Callable[[Client, Cluster], Job]] = {
    "is queued": queued, "runs": running, "is over": over, "is unknown to SLURM": running,
    "is somebody else's": running, "cannot be asked about": running,
}  # fmt: skip


def answer(client: Client, cluster: Cluster, situation: str, job: Job) -> tuple[str, str]:
    """What canceling says: True, False or the error's name, and the words."""
    backend, ref = client.engine.backend_of(job), client.engine.ref_of(job)
    assert ref is not None
    try:
        if situation == "is unknown to SLURM":
            return str(backend.cancel(replace(ref, native_id="99999999"), timedelta(0)).phase.over), ""
        if situation == "is somebody else's":
            theirs = cluster.login("sbatch --parsable -A otheracct -o /dev/null --wrap 'sleep 300'", user=OTHER_USER)
            return str(backend.cancel(replace(ref, native_id=theirs.stdout.strip()), timedelta(0)).phase.over), ""
        if situation == "cannot be asked about":
            with cluster.hung():
                return str(backend.cancel(ref, timedelta(0)).phase.over), ""
        return str(client.cancel_job(job.id, grace=1)), client.get_job(job.id).message
    except TaoError as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("row", rows("Canceling"), ids=lambda row: row[0])
def test_canceling_answers_as_the_table_says(row: list[str], client: Client, cluster: Cluster) -> None:
    situation, said, status, words = row
    job = SITUATIONS[situation](client, cluster)
    before = client.get_job(job.id).status
    found, message = answer(client, cluster, situation, job)
    assert found == said
    assert words in message
    if status == "as it was":
        assert client.get_job(job.id).status is before
    else:
        assert client.get_job(job.id).status == status


def test_the_files_lie_where_the_page_says(client: Client, cluster: Cluster) -> None:
    job = over(client, cluster)
    told = set(re.findall(r"`(specs|env|meta)`", PAGE.read_text()))
    folder = cluster.path(str(job.results_dir)).parents[1] / "jobs" / job.id
    assert told == {"specs", "env", "meta"}
    assert all((folder / name).is_dir() for name in told)
    assert (folder / "sbatch" / f"job_{job.id}.sbatch").is_file()
