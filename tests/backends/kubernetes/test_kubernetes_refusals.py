"""Which nodes a job may use, what it is refused for, and that a refusal leaves nothing. The nodes are
simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes.kube_here import Cluster, namespaced
from support.kubernetes.page_roles import (
    grant_further_rights,
    revoke_further_rights,
    role_of_the_page,
)
from support.waiting import until
from tao_sdk.backends.kubernetes.look import core_path, items, jobs_path
from tao_sdk.client import Client
from tao_sdk.model.errors import Refused, SpecError
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, mint_id
from tao_sdk.model.status import Status

SMALL = 16  # nodes with one GPU
CHECKED = ("mount.unseen", "mount.missing", "kubernetes.pull_secret")
NO_JOBS = {"metadata": {"name": "no-jobs"}, "spec": {"hard": {"count/jobs.batch": "0"}}}


@pytest.fixture
def namespace(simulation: Cluster) -> Iterator[str]:
    name = simulation.make_namespace()
    yield name
    simulation.clear_namespace(name)


@pytest.fixture
def client(simulation: Cluster, namespace: str, tmp_path: Path) -> Iterator[Client]:
    kubeconfig = simulation.write_kubeconfig(tmp_path / "kubeconfig", namespace)
    environ = {"KUBECONFIG": str(kubeconfig), "TAO_K8S_NAMESPACE": namespace}
    environ |= {"HOME": str(tmp_path), "TAO_SDK_STATE_DIR": str(tmp_path / "state")}
    with Client(settings=Settings(environ)) as client:
        yield client


@pytest.fixture
def kind(simulation: Cluster) -> Iterator[str]:
    """The label of nodes that the test alone has; they are removed at its end."""
    name = mint_id("kind")
    yield name
    own = [node for node in simulation.simulated if node.startswith(name)]
    simulation.remove_nodes(own)


def test_nodes_that_come_and_go_are_seen_by_the_next_submit_of_one_client(
    simulation: Cluster, client: Client, kind: str
) -> None:
    """As many GPUs on small nodes are no room for a rank that wants eight on one."""
    spec = JobSpec(image="simulated:1", command="true", gpu_count=8, num_nodes=2)
    options = {"node_selector": {"kind": kind}, "gang": "none"}

    def is_refused() -> bool:
        try:
            found = client.plan(spec, "kubernetes", options).findings
        except SpecError:
            return True
        return any(each.severity is Severity.ERROR for each in found)

    def add(gpus: int, *names: str) -> None:
        node = {"gpus": gpus, "labels": {"kind": kind}}
        simulation.simulate_nodes({f"{kind}-{name}": node for name in names})

    add(1, *(f"small-{number}" for number in range(SMALL)))
    assert is_refused()
    add(8, "large-1")
    assert is_refused()
    add(8, "large-2")
    assert not is_refused()
    simulation.remove_nodes([f"{kind}-large-2"])
    assert is_refused()


def test_a_job_that_a_quota_refuses_leaves_nothing(
    simulation: Cluster, client: Client, namespace: str
) -> None:
    quotas = f"{namespaced(namespace)}/resourcequotas"
    simulation.api.create(quotas, NO_JOBS)
    until(lambda: simulation.api.get(f"{quotas}/no-jobs").get("status", {}).get("hard"))
    spec = JobSpec(image="simulated:1", command="true", gpu_count=0, num_nodes=2)
    with pytest.raises(Refused, match="exceeded quota"):
        client.submit(spec, "kubernetes", {"gang": "none"})
    assert client.list_jobs() == []
    assert left_by_us(client, namespace) == []


def affinity(kind: str, value: str) -> dict[str, Any]:
    """`native` of a job for nodes with this label."""
    match = {"matchExpressions": [{"key": kind, "operator": "In", "values": [value]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [match]}}
    return {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": required}}}}}


def test_an_affinity_by_native_decides_the_node_and_one_that_no_node_has_is_told(
    simulation: Cluster, client: Client, namespace: str, kind: str
) -> None:
    labels = {f"{kind}-{name}": {kind: name} for name in ("left", "right")}
    simulation.simulate_nodes({name: {"gpus": 0, "labels": each} for name, each in labels.items()})
    spec = JobSpec(image="simulated:1", command="true", gpu_count=0)
    right, lost = (
        client.submit(replace(spec, native=affinity(kind, value)), "kubernetes").job.id
        for value in ("right", "nowhere")
    )
    assert client.wait(right, timeout=300).status is Status.COMPLETE
    pods = simulation.api.get(f"{namespaced(namespace)}/pods")["items"]
    assert {pod["spec"].get("nodeName") for pod in pods} == {f"{kind}-right", None}
    until(lambda: "didn't match Pod's node affinity" in client.get_job(lost).message)
    diagnosis = client.diagnose(lost)
    assert diagnosis is not None and diagnosis.rule == "kubernetes.unschedulable"
    client.cancel_job(lost, grace=1)


def test_what_a_role_may_not_see_is_told_and_with_the_further_rights_of_the_page_it_is_checked(
    simulation: Cluster, namespace: str, tmp_path: Path
) -> None:
    token = simulation.make_user(namespace, "caller", role_of_the_page()["rules"])
    kubeconfig = simulation.write_kubeconfig(tmp_path / "caller", namespace, token)
    mounts = ["pvc://lost:/a", "secret://lost:/b", "configmap://lost:/c"]
    spec = JobSpec(image="simulated:1", command="true", gpu_count=0, mounts=mounts)
    environ = {"KUBECONFIG": str(kubeconfig), "TAO_K8S_NAMESPACE": namespace, "HOME": str(tmp_path)}

    def found() -> dict[str, list[Finding]]:
        with Client(settings=Settings(environ)) as client:
            told = client.plan(spec, "kubernetes", {"image_pull_secret": "lost"}).findings
        return {code: [each for each in told if each.code == code] for code in CHECKED}

    unseen = found()
    assert [len(each) for each in unseen.values()] == [1, 0, 1]
    [mount], [login] = unseen["mount.unseen"], unseen["kubernetes.pull_secret"]
    assert (mount.severity, login.severity) == (Severity.WARNING, Severity.WARNING)
    for kind in ("persistentvolumeclaims", "secrets", "configmaps"):
        assert kind in mount.what
        assert f'resources: ["{kind}"], verbs: ["get"]' in mount.fix
    assert "is not checked" in mount.why
    grant_further_rights(simulation, namespace, "caller")
    try:
        until(lambda: not found()["mount.unseen"])
        seen = found()
    finally:
        revoke_further_rights(simulation, namespace, "caller")
    assert [each.what for each in seen["mount.missing"]] == [
        f"{scheme}://lost is mounted and is not there." for scheme in ("pvc", "secret", "configmap")
    ]
    [login] = seen["kubernetes.pull_secret"]
    assert login.severity is Severity.ERROR


def left_by_us(client: Client, namespace: str) -> list[Any]:
    kube = client.engine.backend("kubernetes").kube  # pyright: ignore
    kinds = ("services", "secrets", "configmaps", "pods")
    paths = [jobs_path(namespace), *(core_path(namespace, each) for each in kinds)]
    return [each for path in paths for each in items(kube, path, labelSelector="tao-toolkit=true")]
