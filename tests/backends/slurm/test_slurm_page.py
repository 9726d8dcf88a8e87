"""The page about the platform: its tables say what is so."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from support.cluster import cluster_here
from support.cluster.cluster_files import OTHER_USER
from support.cluster.cluster_here import Cluster, until
from support.cluster.cluster_images import PYTHON, dockerd_here
from tao_sdk.backends.contract import cancel_one
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
    assert told == {name for name in KNOWN_NAMES if name.startswith(("SLURM_", "SSH_"))} | {
        "TAO_SSH_CONFIG"
    }


@dataclass
class Told:
    """A job in every situation of the table about canceling."""

    cluster: Cluster
    client: Client
    jobs: dict[str, Job]


SITUATIONS: dict[str, tuple[str, Status]] = {  # begins at, is then
    "is queued": ("now+600", Status.PENDING), "runs": ("now", Status.RUNNING),
    "is over": ("now", Status.COMPLETE),
    "is unknown to SLURM": ("now", Status.RUNNING), "is somebody else's": ("now", Status.RUNNING),
    "cannot be asked about": ("now", Status.RUNNING),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(lasting_client: Client) -> Told:
    told = Told(cluster_here.cluster(), lasting_client, {})
    for situation, (begin, status) in SITUATIONS.items():
        command = "true" if status.terminal else "sleep 300"
        spec = JobSpec(image=PYTHON, command=command, gpu_count=0, cpus=1, native={"begin": begin})
        told.jobs[situation] = lasting_client.submit(spec, "slurm").job
    wanted = {situation: status for situation, (_, status) in SITUATIONS.items()}
    until(
        lambda: (
            {name: lasting_client.get_job(job.id).status for name, job in told.jobs.items()}
            == wanted
        )
    )
    return told


def answer(told: Told, situation: str) -> tuple[str, str]:
    """What canceling says: True, False or the error's name, and the words."""
    client, cluster, job = told.client, told.cluster, told.jobs[situation]
    backend, ref = client.engine.backend_of(job), client.engine.ref_of(job)
    assert ref is not None
    try:
        if situation == "is unknown to SLURM":
            return str(
                cancel_one(backend, replace(ref, native_id="99999999"), timedelta(0)).phase.over
            ), ""
        if situation == "is somebody else's":
            named = f"sbatch --parsable -A otheracct -J {job.id}.1 -o /dev/null --wrap 'sleep 300'"
            theirs = cluster.login(named, user=OTHER_USER)
            return str(
                cancel_one(
                    backend, replace(ref, native_id=theirs.stdout.strip()), timedelta(0)
                ).phase.over
            ), ""
        if situation == "cannot be asked about":
            with cluster.hung():
                return str(cancel_one(backend, ref, timedelta(0)).phase.over), ""
        return str(client.cancel_job(job.id, grace=1)), client.get_job(job.id).message
    except TaoError as error:
        return type(error).__name__, str(error)


def test_the_table_about_canceling_has_every_situation() -> None:
    assert [row[0] for row in rows("Canceling")] == list(SITUATIONS)


@pytest.mark.parametrize("row", rows("Canceling"), ids=lambda row: row[0])
def test_canceling_answers_as_the_table_says(row: list[str], told: Told) -> None:
    situation, said, status, words = row
    job, before = told.jobs[situation], SITUATIONS[situation][1]
    found, message = answer(told, situation)
    assert found == said
    assert words in message
    assert told.client.get_job(job.id).status == (before if status == "as it was" else status)


def test_the_files_lie_where_the_page_says(told: Told) -> None:
    job = told.jobs["is over"]
    named = set(re.findall(r"`(specs|env|meta)`", PAGE.read_text()))
    folder = told.cluster.path(str(job.results_dir)).parents[1] / "jobs" / job.id
    assert named == {"specs", "env", "meta"}
    assert all((folder / name).is_dir() for name in named)
    assert (folder / "sbatch" / f"job_{job.id}.sbatch").is_file()
