from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import marks
from support.caller import caller_environment
from support.ended_jobs import ending_jobs
from support.kubernetes import fault_proxy, kube_here, programs
from support.kubernetes.fault_proxy import FaultProxy
from support.kubernetes.kube_here import Cluster
from tao_sdk.client import Client
from tao_sdk.model.settings import Settings


def pytest_itemcollected(item: pytest.Item) -> None:
    marks.mark_by_fixtures(item, "kubernetes", {"cluster", "simulation"})


@pytest.fixture
def cluster() -> Cluster:
    return kube_here.cluster()


@pytest.fixture
def simulation() -> Cluster:
    """A cluster whose nodes are simulated."""
    return kube_here.simulation()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own."""
    name = cluster.make_namespace()
    yield name
    cluster.clear_namespace(name)


@pytest.fixture
def kubeconfig(cluster: Cluster, namespace: str, tmp_path: Path) -> Path:
    """Of a user who may do everything; what he does not say otherwise is in the test's
    namespace.
    """
    return cluster.write_kubeconfig(tmp_path / "kubeconfig", namespace)


@pytest.fixture
def surroundings(
    cluster: Cluster,
    namespace: str,
    kubeconfig: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, str]:
    """The environment of a caller on a cluster that has the images of the tests."""
    cluster.has_python_image()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{programs.programs()}:{os.environ['PATH']}")
    own = {"KUBECONFIG": str(kubeconfig), "TAO_K8S_NAMESPACE": namespace}
    return caller_environment(tmp_path, **own)


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    """What stands before the API server of whoever takes it."""
    with fault_proxy.before(cluster) as proxy:
        yield proxy


@pytest.fixture
def client_through_proxy(
    proxy: FaultProxy, surroundings: dict[str, str], namespace: str, tmp_path: Path
) -> Iterator[Client]:
    """As `client`, behind the proxy."""
    kubeconfig = proxy.write_kubeconfig(tmp_path / "through-proxy", namespace=namespace)
    settings = Settings({**surroundings, "KUBECONFIG": str(kubeconfig)})
    yield from ending_jobs(Client(settings=settings), grace=1, remove=True)


@pytest.fixture
def client(surroundings: dict[str, str]) -> Iterator[Client]:
    """A client whose jobs are all ended and removed when the test is over."""
    yield from ending_jobs(Client(settings=Settings(surroundings)), grace=1, remove=True)
