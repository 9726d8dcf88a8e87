"""The tests' simulated nodes: what the other tests take for granted of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.kubernetes.kube_api import ApiError
from support.kubernetes.kube_here import Cluster, namespaced
from support.kubernetes.kube_jobs import end, job, printed, start

GPUS = {"resources": {"limits": {"nvidia.com/gpu": 8}}}


@pytest.fixture
def space(simulation: Cluster) -> Iterator[str]:
    """A namespace of a cluster with two simulated nodes of eight GPUs."""
    simulation.simulate_nodes({"big-1": {"gpus": 8}, "big-2": {"gpus": 8}})
    name = simulation.make_namespace()
    yield name
    simulation.clear_namespace(name)


def played(name: str, *command: str, main: dict[str, Any] | None = None, **says: str) -> Any:
    """A Job whose pods live as the annotations say; `_` stands for `-` in their names."""
    manifest = job(name, *(command or ("true",)), main=main or {})
    annotations = {f"simulated/{key.replace('_', '-')}": value for key, value in says.items()}
    manifest["spec"]["template"]["metadata"] = {"annotations": annotations}
    return manifest


def pods(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    return cluster.api.get(f"{namespaced(namespace)}/pods")["items"]


def states(cluster: Cluster, namespace: str, kind: str) -> list[dict[str, Any]]:
    """The containers' states of this kind: waiting, running or terminated."""
    statuses = [
        status
        for pod in pods(cluster, namespace)
        for status in pod["status"].get("containerStatuses", [])
    ]
    return [status["state"][kind] for status in statuses if kind in status["state"]]


def test_a_simulated_job_ends_with_the_code_and_reason_that_it_names(
    simulation: Cluster, space: str
) -> None:
    good = start(simulation, space, played("good"))
    bad = start(simulation, space, played("bad", exit_code="137", reason="OOMKilled"))
    assert [end(simulation, path) for path in (good, bad)] == ["Complete", "Failed"]
    ends = {(each["exitCode"], each["reason"]) for each in states(simulation, space, "terminated")}
    assert ends == {(0, "Completed"), (137, "OOMKilled")}


def test_the_last_of_three_jobs_waits_for_the_gpus_of_two_nodes(
    simulation: Cluster, space: str
) -> None:
    for name in ("first", "second", "third"):
        start(simulation, space, played(name, main=GPUS, seconds="600"))
    simulation.wait_for(lambda: len(states(simulation, space, "running")) == 2)
    [waiting] = [pod for pod in pods(simulation, space) if not pod["spec"].get("nodeName")]
    words = simulation.wait_for(lambda: waiting_words(simulation, waiting))
    assert "0/2 nodes are available: 2 Insufficient nvidia.com/gpu" in words


def waiting_words(cluster: Cluster, pod: dict[str, Any]) -> str:
    """What the scheduler says of a pod that it finds no node for."""
    path = f"{namespaced(pod['metadata']['namespace'])}/pods/{pod['metadata']['name']}"
    conditions = cluster.api.get(path)["status"].get("conditions", [])
    return "".join(each["message"] for each in conditions if each["type"] == "PodScheduled")


def test_a_container_that_cannot_start_says_why_and_has_no_log(
    simulation: Cluster, space: str
) -> None:
    start(simulation, space, played("stuck", waiting="ImagePullBackOff", message="no such image"))
    [state] = simulation.wait_for(lambda: states(simulation, space, "waiting"))
    assert state == {"reason": "ImagePullBackOff", "message": "no such image"}
    with pytest.raises(ApiError, match="400.*trying and failing to pull image"):
        printed(simulation, space, "stuck")


def test_a_log_is_served_whole_its_end_and_with_times(simulation: Cluster, space: str) -> None:
    end(simulation, start(simulation, space, played("says", log="one\ntwo\nthree\n")))
    [pod] = pods(simulation, space)
    log = f"{namespaced(space)}/pods/{pod['metadata']['name']}/log"
    assert simulation.api.read(log) == b"one\ntwo\nthree\n"
    assert simulation.api.read(f"{log}?tailLines=1") == b"three\n"
    lines = simulation.api.read(f"{log}?timestamps=true").decode().splitlines()
    assert [line.partition(" ")[2] for line in lines] == ["one", "two", "three"]
    since = lines[0].partition(".")[0]  # the API server knows only whole seconds
    assert simulation.api.read(f"{log}?sinceTime={since}Z") == b"one\ntwo\nthree\n"
    assert simulation.api.read(f"{log}?sinceTime=2999-01-01T00:00:00Z") == b""


def test_a_deleted_pod_takes_its_time_to_end_and_is_gone(simulation: Cluster, space: str) -> None:
    path = start(simulation, space, played("long", seconds="600", end_seconds="1"))
    simulation.wait_for(lambda: states(simulation, space, "running"))
    simulation.api.delete(path, {"propagationPolicy": "Foreground"})
    simulation.wait_for(lambda: not pods(simulation, space))


def test_an_evicted_pod_has_failed_with_the_words_of_its_node(
    simulation: Cluster, space: str
) -> None:
    words = "The node was low on resource: memory."
    end(simulation, start(simulation, space, played("out", evicted=words)))
    [pod] = pods(simulation, space)
    assert (pod["status"]["reason"], pod["status"]["message"]) == ("Evicted", words)
    kinds = [each["type"] for each in pod["status"]["conditions"]]
    assert "DisruptionTarget" in kinds


def test_a_silent_node_is_lost_with_its_pods_and_comes_back(
    simulation: Cluster, space: str
) -> None:
    simulation.simulate_nodes({"weak": {"gpus": 1, "labels": {"kind": "weak"}}})
    manifest = played("lost", seconds="600")
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"kind": "weak"}
    path = start(simulation, space, manifest)
    simulation.wait_for(lambda: states(simulation, space, "running"))
    simulation.simulate_nodes({"weak": {"gpus": 1, "silent": True}})

    def disrupted() -> bool:
        conditions = simulation.api.get(path)["status"].get("conditions", [])
        return "FailureTarget" in [each["type"] for each in conditions]

    simulation.wait_for(disrupted)
    simulation.simulate_nodes({"weak": {"gpus": 1}})


def test_a_hundred_nodes_are_ready(simulation: Cluster) -> None:
    names = [f"many-{number}" for number in range(100)]
    simulation.simulate_nodes({name: {"gpus": 8} for name in names})
    found = simulation.api.get("/api/v1/nodes")["items"]
    assert {node["metadata"]["name"] for node in found} >= set(names)
    simulation.remove_nodes(names)
    found = simulation.api.get("/api/v1/nodes")["items"]
    assert not {node["metadata"]["name"] for node in found} & set(names)
