"""A queue of Kueue: it alone starts a job, and what it says is told.

Kueue itself does not run here. The test does by hand what Kueue does to a Job and its Workload.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.kubernetes.kube_api import ApiError
from support.kubernetes.kube_files import PYTHON
from support.kubernetes.kube_here import Cluster, namespaced
from support.waiting import until
from tao_sdk.client import Client
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

GROUP, VERSION = "kueue.x-k8s.io", "v1beta1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KINDS = {"workloads": "Workload", "localqueues": "LocalQueue"}
# What Kueue 0.12.3 has written into such a Workload.
WORDS = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in "
    "flavor flavor-a, 4 more needed"
)


@pytest.fixture
def kueue(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster that serves the parts of Kueue's API that a client sees."""
    for plural, kind in KINDS.items():
        cluster.api.create(DEFINITIONS, definition(plural, kind))
    path = f"{namespaced('default', f'{GROUP}/{VERSION}')}"
    for plural in KINDS:
        cluster.wait_for(lambda plural=plural: cluster.api.get(f"{path}/{plural}"))
    yield cluster
    for plural in KINDS:
        cluster.api.delete(f"{DEFINITIONS}/{plural}.{GROUP}")


def definition(plural: str, kind: str) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": VERSION, "served": True, "storage": True}
    spec = {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
        "versions": [{**version, "schema": {"openAPIV3Schema": anything}}],
    }
    return {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec}


def workload(job: dict[str, Any], words: str) -> dict[str, Any]:
    """As Kueue makes one for a Job that it does not let in."""
    metadata = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"]}
    condition = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": words}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Workload",
        "metadata": {
            "name": f"job-{metadata['name']}",
            "labels": {f"{GROUP}/job-uid": metadata["uid"]},
            "ownerReferences": [{**owner, "uid": metadata["uid"]}],
        },
        "spec": {"active": True},
        "status": {"conditions": [condition]},
    }


def test_only_its_queue_starts_and_stops_a_job_and_its_words_are_told(
    client: Client, kueue: Cluster, namespace: str
) -> None:
    spec = JobSpec(image=PYTHON, command="sleep 600", gpu_count=0, num_nodes=2)
    submission = client.submit(spec, "kubernetes", {"queue": "team"})
    assert any("has no queue team" in each.what for each in submission.findings)
    job = submission.job
    assert client.get_job(job.id).message == "it waits in the queue team"

    api, jobs = kueue.api, f"{namespaced(namespace, 'batch/v1')}/jobs/tao-job-{job.id}"
    workloads = f"{namespaced(namespace, f'{GROUP}/{VERSION}')}/workloads"
    api.create(workloads, workload(api.get(jobs), WORDS))
    assert client.get_job(job.id).message == f"it waits in the queue team: {WORDS}"
    assert api.get(jobs)["spec"]["suspend"] is True

    selector = {"spec": {"nodeSelector": {"gpu-type": "pretended"}}}
    api.patch(jobs, {"spec": {"suspend": False, "template": selector}})
    until(lambda: client.get_job(job.id).status is Status.RUNNING)
    api.patch(jobs, {"spec": {"suspend": True}})  # another job takes its place
    until(lambda: client.get_job(job.id).status is Status.PENDING)
    pods = f"{namespaced(namespace)}/pods"
    until(lambda: api.get(pods)["items"] == [])
    assert client.get_job(job.id).message == f"it waits in the queue team: {WORDS}"
    assert api.get(jobs)["spec"]["suspend"] is True


def test_a_queue_of_a_cluster_without_kueue_is_warned_about(
    client: Client, cluster: Cluster
) -> None:
    with pytest.raises(ApiError, match="404"):
        cluster.api.get(f"/apis/{GROUP}")
    spec = JobSpec(image=PYTHON, command="true", gpu_count=0)
    found = client.plan(spec, "kubernetes", {"queue": "team"}).findings
    assert "kubernetes.queue" in [each.code for each in found]
