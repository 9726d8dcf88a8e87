"""The oldest release of Kubernetes that we support takes what we send. Only its API server runs:
the tests play the controllers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes import kube_here, programs
from support.kubernetes.kube_api import ApiError
from support.kubernetes.kube_files import PYTHON, Shape
from support.kubernetes.kube_here import Cluster, namespaced
from tao_sdk.backends.kubernetes.backend import KubernetesBackend
from tao_sdk.backends.kubernetes.cluster import doctor
from tao_sdk.client import Client
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.settings import Settings
from tao_sdk.model.status import Status

NODES = ("node-1", "node-2")
JOBS = f"{namespaced('default', 'batch/v1')}/jobs"
SERVICES, SECRETS = f"{namespaced('default')}/services", f"{namespaced('default')}/secrets"


@pytest.fixture(scope="module")
def oldest() -> Iterator[Cluster]:
    """An API server with one node, on which nothing runs."""
    with kube_here.shaped(Shape(level="api", is_oldest=True)) as cluster:
        room = {"cpu": "8", "memory": "64Gi", "pods": "100", "nvidia.com/gpu": "8"}
        ready = {"type": "Ready", "status": "True"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        for name in NODES:
            cluster.api.create("/api/v1/nodes", {"metadata": {"name": name}})
            cluster.api.patch(f"/api/v1/nodes/{name}/status", {"status": status})
        account = {"metadata": {"name": "default"}}
        cluster.wait_for(lambda: cluster.api.create(accounts_path(), account))
        yield cluster


def accounts_path() -> str:
    return f"{namespaced('default')}/serviceaccounts"


@pytest.fixture
def client(oldest: Cluster, tmp_path: Path) -> Iterator[Client]:
    kubeconfig = oldest.write_kubeconfig(tmp_path / "kubeconfig")
    environ = {
        "KUBECONFIG": str(kubeconfig),
        "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }
    with Client(settings=Settings(environ)) as made:
        yield made


def collect_garbage(cluster: Cluster, job: str) -> None:
    """Once the Job is deleted in the foreground, let it go."""
    path = f"{JOBS}/{job}"
    cluster.wait_for(lambda: cluster.api.get(path)["metadata"].get("deletionTimestamp"))
    cluster.api.patch(path, {"metadata": {"finalizers": None}})


@pytest.mark.kubernetes
def test_the_oldest_release_is_the_one_that_the_documentation_names(oldest: Cluster) -> None:
    page = Path(__file__).parents[3] / "docs" / "kubernetes.md"
    served = oldest.api.get("/version")["gitVersion"]
    assert served == f"v{programs.OLDEST.release()}"
    assert served.removeprefix("v").rpartition(".")[0] in page.read_text()


@pytest.mark.kubernetes
def test_the_doctor_warns_of_a_release_that_is_too_old_and_of_nodes_without_gpus(
    oldest: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = oldest.write_kubeconfig(tmp_path / "kubeconfig")

    def told(**environ: str) -> dict[str, Finding]:
        given = {"HOME": str(tmp_path), "KUBECONFIG": str(kubeconfig), **environ}
        return {each.code: each for each in KubernetesBackend(Settings(given), tmp_path).doctor()}

    good = told()
    assert {good["kubernetes.cluster"].severity, good["kubernetes.gpus"].severity} == {Severity.OK}
    offer_gpus(oldest, 0)
    try:
        bare, skipped = told(), told(TAO_K8S_SKIP_NODE_RUNTIME_CHECK="1")
    finally:
        offer_gpus(oldest, 8)
    assert bare["kubernetes.gpus"].what == "WARN: no nvidia.com/gpu allocatable on this cluster."
    runtime = bare["kubernetes.node_runtime"]
    assert runtime.what == "MISSING: TAO Kubernetes GPU node runtime is not ready."
    assert "TAO_K8S_SKIP_NODE_RUNTIME_CHECK=1" in runtime.next
    assert {each.severity for each in (runtime, bare["kubernetes.gpus"])} == {Severity.WARNING}
    assert "kubernetes.node_runtime" not in skipped
    assert skipped["kubernetes.gpus"].severity is Severity.WARNING
    monkeypatch.setattr(doctor, "OLDEST", (1, 29))
    old = told()
    assert "kubernetes.cluster" not in old
    assert old["kubernetes.old"].severity is Severity.WARNING
    assert f"Kubernetes v{programs.OLDEST.release()} answers" in old["kubernetes.old"].what


def offer_gpus(cluster: Cluster, count: int) -> None:
    room = {"nvidia.com/gpu": str(count)}
    for name in NODES:
        status = {"capacity": room, "allocatable": room}
        cluster.api.patch(f"/api/v1/nodes/{name}/status", {"status": status})


@pytest.mark.kubernetes
@pytest.mark.parametrize("nodes", [1, 2])
def test_the_oldest_release_takes_a_job_its_status_and_its_cancel(
    oldest: Cluster, client: Client, nodes: int
) -> None:
    job: dict[str, Any] = {
        "name": "old",
        "image": PYTHON,
        "command": "echo hello",
        "num_nodes": nodes,
        "gpu_count": 1,
        "env_vars": {"HF_TOKEN": "canary"},
    }
    submitted = client.submit(job, "kubernetes").job
    name = f"tao-job-{submitted.id}"
    made = oldest.api.get(f"{JOBS}/{name}")
    assert made["spec"]["completions"] == nodes and made["spec"]["suspend"] is False
    assert oldest.api.get(f"{SECRETS}/{name}-env")["metadata"]["ownerReferences"]
    if nodes > 1:
        assert oldest.api.get(f"{SERVICES}/{name}")["spec"]["clusterIP"] == "None"
    assert [each.status for each in client.list_jobs()] == [Status.PENDING]
    garbage = threading.Thread(target=collect_garbage, args=(oldest, name))
    garbage.start()
    assert client.cancel_job(submitted.id)
    garbage.join()
    assert client.get_job(submitted.id).status is Status.CANCELED
    with pytest.raises(ApiError, match="404"):
        oldest.api.get(f"{JOBS}/{name}")
