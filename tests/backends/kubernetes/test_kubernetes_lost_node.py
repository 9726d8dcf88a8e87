"""A node that does not answer any more: its job is tried again elsewhere, and its log is told as
lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes.kube_files import PYTHON
from support.kubernetes.kube_here import Cluster, namespaced
from support.waiting import until
from tao_sdk.backends.kubernetes.pods import ending
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.reasons import Reason
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

# Of a pod on a simulated node, which takes its time to end.
LIVES = {"annotations": {"simulated/seconds": "600", "simulated/end-seconds": "600"}}
# The cluster gives up no pod that tolerates a node without a sign of life.
PATIENT = {"tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}]}


def submit(client: Client, options: Mapping[str, Any] = LIVES, **spec: Any) -> Job:
    spec = {"image": PYTHON, "gpu_count": 0, "command": "echo up; sleep 600", **spec}
    return client.submit(JobSpec(**spec), "kubernetes", options).job


def runs(client: Client, job: Job) -> bool:
    return client.get_job(job.id).status is Status.RUNNING


def objects(cluster: Cluster, namespace: str, kind: str) -> list[dict[str, Any]]:
    group = "batch/v1" if kind == "jobs" else ""
    return cluster.api.get(f"{namespaced(namespace, group)}/{kind}")["items"]


@pytest.fixture
def spare_node(cluster: Cluster) -> Iterator[str]:
    """A second node. Without one the cluster gives up no node at all."""
    cluster.simulate_nodes({"spare": {"gpus": 0}})
    yield "spare"
    cluster.remove_nodes(["spare"])


def test_a_job_on_a_lost_node_is_tried_again_and_its_log_and_its_job_count_as_gone(
    surroundings: dict[str, str],
    cluster: Cluster,
    namespace: str,
    request: pytest.FixtureRequest,
) -> None:
    with Client(settings=Settings(surroundings), watch=True, poll_interval=1) as client:
        job = submit(client, retries=1)
        until(lambda: b"up" in b"".join(client.follow_logs(job.id, follow=False)))
        request.getfixturevalue("spare_node")
        with cluster.hung("kubelet"):
            until(lambda: client.get_job(job.id).attempt == 2)
            until(lambda: runs(client, job))
            log = b"".join(client.follow_logs(job.id, follow=False)).decode()
            assert "is lost with its node real-node, which does not answer\n" in log
            until(lambda: len(objects(cluster, namespace, "jobs")) == 1)
            assert client.remove(job.id, force=True)
        cluster.wait_for(lambda: cluster.is_ready("real-node"))


@pytest.fixture
def weak_node(simulation: Cluster) -> Iterator[str]:
    """A node that falls silent, and another: a cluster gives up none without one that answers."""
    simulation.simulate_nodes({"weak": {"gpus": 0}, "strong": {"gpus": 0}})
    yield "weak"
    simulation.remove_nodes(["weak", "strong"])


@pytest.fixture
def away(
    simulation: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Client, str]]:
    """A client of the simulated cluster, and the namespace of its jobs."""
    monkeypatch.setattr(ending, "MARGIN", 1.0)
    namespace = simulation.make_namespace()
    kubeconfig = simulation.write_kubeconfig(tmp_path / "kubeconfig", namespace)
    environ = {
        "KUBECONFIG": str(kubeconfig),
        "TAO_K8S_NAMESPACE": namespace,
        "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
        "HOME": str(tmp_path),
    }
    with Client(settings=Settings(environ), watch=False) as client:
        yield client, namespace
    simulation.clear_namespace(namespace)


def test_what_a_lost_node_holds_is_named_by_a_cancel_and_forced_away_by_a_forced_removal(
    simulation: Cluster, weak_node: str, away: tuple[Client, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, namespace = away
    there = {**LIVES, "node_selector": {"kubernetes.io/hostname": weak_node}}
    canceled, waiting = submit(client, {**there, **PATIENT}), submit(client, there, retries=1)
    until(lambda: runs(client, canceled) and runs(client, waiting))
    simulation.silence_node(weak_node)
    assert client.cancel_job(canceled.id, grace=1) is False
    assert f"its node {weak_node}" in client.get_job(canceled.id, look=False).message
    until(lambda: client.get_job(waiting.id).waits_for_next_attempt)
    monkeypatch.setattr(ending, "MARGIN", 300.0)
    assert client.remove(waiting.id, force=True)
    assert len(objects(simulation, namespace, "jobs")) == 1
    monkeypatch.setattr(ending, "MARGIN", 1.0)
    client.remove(canceled.id, force=True)
    cluster_has = [objects(simulation, namespace, kind) for kind in ("jobs", "pods")]
    assert cluster_has == [[], []]


def test_a_rank_that_somebody_took_away_says_why_while_its_peer_still_ends(
    simulation: Cluster, away: tuple[Client, str]
) -> None:
    """Its pod is gone at once. The peer is then deleted by the Job's controller."""
    client, namespace = away
    simulation.simulate_nodes({"pair": {"gpus": 0}})
    job = submit(client, num_nodes=2)
    until(lambda: runs(client, job))
    taken = objects(simulation, namespace, "pods")[0]["metadata"]["name"]
    at_once = {"gracePeriodSeconds": 0}
    simulation.api.delete(f"{namespaced(namespace)}/pods/{taken}", at_once)
    ended = client.wait(job.id, timeout=300)
    assert objects(simulation, namespace, "pods"), "the peer was to end slowly"
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.EVICTED), ended.message
    simulation.remove_nodes(["pair"])
