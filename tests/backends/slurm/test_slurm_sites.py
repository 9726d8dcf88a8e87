"""A site that lacks what others have: it keeps no accounts, has neither Pyxis nor enroot, and
enforces its limits at once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest

from support.cluster import cluster_here
from support.cluster.cluster_here import Cluster, until
from tao_sdk.backends.slurm.backend import SlurmBackend
from tao_sdk.client import Client
from tao_sdk.model.errors import Refused
from tao_sdk.model.job import Job
from tao_sdk.model.observation import Phase
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    here = cluster_here.cluster()
    with here.as_site(
        accounting=False, pyxis=False, enroot=False, enforce_limits=True, min_job_age=2
    ):
        yield here
    here.clear()


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[Client]:
    with tempfile.TemporaryDirectory() as folder:
        own = {"HOME": folder, "TAO_SDK_STATE_DIR": f"{folder}/state", "SLURM_PARTITION": "grizzly"}
        with Client(settings=Settings({**cluster.surroundings(), **own})) as client:
            yield client


def submit(client: Client, command: str, **more: object) -> Job:
    return client.submit(JobSpec(command=command, gpu_count=0, cpus=1, **more), "slurm").job  # pyright: ignore[reportArgumentType]


def backend_of(client: Client) -> SlurmBackend:
    backend = client.engine.backend("slurm")
    assert isinstance(backend, SlurmBackend)
    return backend


def test_it_says_in_slurms_own_words_what_it_lacks(cluster: Cluster) -> None:
    assert "accounting storage is disabled" in cluster.login("sacct").stderr
    assert (
        "unrecognized option '--container-image"
        in cluster.login("srun --container-image=/x true").stderr
    )


def test_the_doctor_tells_what_it_lacks(client: Client) -> None:
    found = {
        each.code: (each.severity.value, each.what)
        for each in client.engine.backend("slurm").doctor()
    }
    cannot = "The cluster cannot run images: its srun has no --container-image (the Pyxis plugin)."
    assert found["slurm.no_pyxis"] == ("error", cannot)
    assert found["slurm.no_accounting"][0] == "warning"


def test_a_job_that_would_need_an_image_is_refused(client: Client) -> None:
    with pytest.raises(Refused, match="cannot run images"):
        submit(client, "true", image="/lustre/images/python.sqsh")


def test_what_goes_over_a_limit_is_refused_in_slurms_words_with_the_remedy(client: Client) -> None:
    with pytest.raises(Refused, match="Requested time limit is invalid") as told:
        submit(client, "true", native={"time": "12:00:00"})
    assert "--time-limit" in told.value.next


def test_jobs_keep_their_ends_without_accounts_also_when_squeue_has_forgotten_them(
    cluster: Cluster, client: Client
) -> None:
    fine, fails, late, runs = (
        submit(client, end) for end in ("true", "exit 7", "exit 9", "sleep 60")
    )
    until(lambda: client.get_job(runs.id).status is Status.RUNNING)
    assert client.cancel_job(runs.id)
    assert client.get_job(runs.id).status is Status.CANCELED
    client.wait_all([fine.id, fails.id], timeout=300)
    assert [client.get_job(each.id, look=False).exit_code for each in (fine, fails)] == [0, 7]
    ref = client.engine.ref_of(late)
    assert ref is not None
    until(lambda: "Invalid job id" in cluster.ask("squeue", "-j", ref.native_id).stderr)
    seen = backend_of(client).observe([ref])[ref]
    assert (seen.phase, seen.exit_code, seen.raw) == (Phase.FAILED, 9, "by its own record")
