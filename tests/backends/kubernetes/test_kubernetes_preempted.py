"""A job that the scheduler takes its GPU for one of a higher priority is tried again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kubernetes.kube_files import PYTHON
from support.kubernetes.kube_here import Cluster
from support.waiting import until
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PRIORITIES = {"when-idle": 1, "urgent": 1000}
ONE_GPU = {"node": "with-one-gpu"}


@pytest.fixture
def client(simulation: Cluster, tmp_path: Path) -> Iterator[Client]:
    """A client of a cluster with one GPU for its jobs, and two priorities."""
    simulation.simulate_nodes({"one": {"gpus": 1, "labels": ONE_GPU}})
    for name, value in PRIORITIES.items():
        simulation.api.create(CLASSES, {"metadata": {"name": name}, "value": value})
    namespace = simulation.make_namespace()
    kubeconfig = simulation.write_kubeconfig(tmp_path / "kubeconfig", namespace)
    environ = {
        "KUBECONFIG": str(kubeconfig),
        "TAO_K8S_NAMESPACE": namespace,
        "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
        "HOME": str(tmp_path),
    }
    with Client(settings=Settings(environ), watch=True, poll_interval=1) as client:
        yield client
    simulation.clear_namespace(namespace)
    for name in PRIORITIES:
        simulation.api.delete(f"{CLASSES}/{name}")
    simulation.remove_nodes(["one"])


def submit(client: Client, priority: str, seconds: int, retries: int = 0) -> Job:
    options = {
        "priority_class": priority,
        "node_selector": ONE_GPU,
        "annotations": {"simulated/seconds": str(seconds)},
    }
    spec = JobSpec(image=PYTHON, command="train", gpu_count=1, retries=retries)
    return client.submit(spec, "kubernetes", options).job


def test_a_preempted_job_has_its_second_attempt_when_the_urgent_one_is_over(
    client: Client,
) -> None:
    patient = submit(client, "when-idle", 600, retries=1)
    until(lambda: client.get_job(patient.id).status is Status.RUNNING)
    urgent = submit(client, "urgent", 1)
    assert client.wait(urgent.id, timeout=300).status is Status.COMPLETE
    until(lambda: client.get_job(patient.id).attempt == 2)
    until(lambda: client.get_job(patient.id).status is Status.RUNNING)
    assert client.cancel_job(patient.id, grace=1)
