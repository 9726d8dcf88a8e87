from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import marks
from support.kubernetes import kube_here
from support.kubernetes.kube_here import Cluster


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
    cluster.remove_namespace(name)


@pytest.fixture
def kubeconfig(cluster: Cluster, namespace: str, tmp_path: Path) -> Path:
    """Of a user who may do everything; what he does not say otherwise is in the test's
    namespace.
    """
    return cluster.write_kubeconfig(tmp_path / "kubeconfig", namespace)
