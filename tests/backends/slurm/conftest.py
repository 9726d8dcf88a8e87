from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import marks
from support.caller import caller_environment
from support.cluster import cluster_here, cluster_images, known_here
from support.cluster.cluster_here import Cluster
from support.ended_jobs import ending_jobs
from tao_sdk.client import Client
from tao_sdk.model.settings import Settings
from tao_sdk.transports import ssh


def pytest_itemcollected(item: pytest.Item) -> None:
    marks.mark_by_fixtures(item, "slurm", {"cluster", "lasting_client", "told"})


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    here = cluster_here.cluster()
    yield here
    here.clear()


@pytest.fixture
def surroundings(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The environment of a caller who uses the cluster and has just looked at it."""
    monkeypatch.chdir(tmp_path)
    cluster_images.place(cluster)
    surroundings = caller_environment(tmp_path, **cluster.surroundings())
    known_here.keep(surroundings, tmp_path / "state")
    return surroundings


@pytest.fixture
def patient_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that count round trips: a slow machine's answer is not followed by the question
    whether the host is there, which is one more.
    """
    monkeypatch.setattr(ssh, "PATIENCE", 300.0)


@pytest.fixture(scope="module")
def lasting_client() -> Iterator[Client]:
    """For tests that wait once for all their jobs. What they have begun ends with the module."""
    cluster = cluster_here.cluster()
    cluster_images.place(cluster)
    with tempfile.TemporaryDirectory() as folder:
        own = {"HOME": folder, "TAO_SDK_STATE_DIR": f"{folder}/state"}
        with Client(settings=Settings({**cluster.surroundings(), **own})) as client:
            yield client
    cluster.clear()


@pytest.fixture
def client(surroundings: dict[str, str]) -> Iterator[Client]:
    """A client whose jobs are all ended when the test is over."""
    yield from ending_jobs(Client(settings=Settings(surroundings)))
