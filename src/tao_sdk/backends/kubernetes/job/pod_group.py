"""Pod groups: they tell a gang scheduler a job's ranks, so that it starts all or none. Pure.

Two schedulers are supported: Volcano, and Kubernetes' own (alpha in 1.36). Each has its own
PodGroup. Here: its manifest, and how pods refer to it. Not here: which scheduler a cluster has
(cluster/gang_scheduler.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tao_sdk.backends.kubernetes.job.manifests import own_labels, owner_of

Object = Mapping[str, Any]

VOLCANO, WORKLOAD = "volcano", "workload"
VOLCANO_GROUP = "scheduling.k8s.io/group-name"  # annotation of pods


@dataclass(frozen=True)
class GangScheduler:
    """A gang scheduler that a cluster may have, and the API of its PodGroups."""

    name: str
    title: str
    api: str  # group and version

    @property
    def group(self) -> str:
        return self.api.partition("/")[0]


# The first one that the cluster serves is used.
SCHEDULERS: Mapping[str, GangScheduler] = {
    VOLCANO: GangScheduler(VOLCANO, "Volcano", "scheduling.volcano.sh/v1beta1"),
    WORKLOAD: GangScheduler(WORKLOAD, "Kubernetes' gang scheduling", "scheduling.k8s.io/v1alpha2"),
}


def joined_job(job: Object, scheduler: str) -> dict[str, Any]:
    """The Job with pods that refer to the PodGroup, which has the Job's name."""
    template = job["spec"]["template"]
    joined = JOINED[scheduler](template, job["metadata"]["name"])
    return {**job, "spec": {**job["spec"], "template": joined}}


def joined_volcano(template: Object, name: str) -> dict[str, Any]:
    metadata = template["metadata"]
    annotations = {**metadata.get("annotations", {}), VOLCANO_GROUP: name}
    return {
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**template["spec"], "schedulerName": "volcano"},
    }


def joined_workload(template: Object, name: str) -> dict[str, Any]:
    return {**template, "spec": {**template["spec"], "schedulingGroup": {"podGroupName": name}}}


JOINED = {VOLCANO: joined_volcano, WORKLOAD: joined_workload}


def pod_group(job: Object, scheduler: str) -> dict[str, Any]:
    """The PodGroup of all ranks, under the Job's name."""
    metadata = job["metadata"]
    return {
        "apiVersion": SCHEDULERS[scheduler].api,
        "kind": "PodGroup",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": own_labels(metadata["labels"]),
        },
        "spec": GROUP_SPEC[scheduler](job),
    }


def volcano_spec(job: Object) -> dict[str, Any]:
    spec: dict[str, Any] = {"minMember": job["spec"]["completions"]}
    priority = job["spec"]["template"]["spec"].get("priorityClassName")
    return {**spec, "priorityClassName": priority} if priority else spec


def workload_spec(job: Object) -> dict[str, Any]:
    return {"schedulingPolicy": {"gang": {"minCount": job["spec"]["completions"]}}}


GROUP_SPEC = {VOLCANO: volcano_spec, WORKLOAD: workload_spec}


# Once the Job's uid is known


def owned_pod_group(job: Object, group: Object) -> dict[str, Any]:
    """The PodGroup with the Job as its owner."""
    return {**group, "metadata": {**group["metadata"], "ownerReferences": [owner_of(job)]}}


def pod_group_path(job: Object) -> str:
    """The API path of the PodGroup that the Job owns; "" for a Job without one."""
    template, metadata = job["spec"]["template"], job["metadata"]
    own: Mapping[str, str] = template["spec"].get("schedulingGroup") or {}
    annotations: Mapping[str, str] = template["metadata"].get("annotations") or {}
    named = {WORKLOAD: own.get("podGroupName"), VOLCANO: annotations.get(VOLCANO_GROUP)}
    for scheduler, name in named.items():
        if name == metadata["name"]:  # a group of another name is the caller's own
            return f"{groups_path(SCHEDULERS[scheduler].api, metadata['namespace'])}/{name}"
    return ""


def collection_path(group: Object) -> str:
    """The API path at which to create such a PodGroup."""
    return groups_path(group["apiVersion"], group["metadata"]["namespace"])


def groups_path(api: str, namespace: str) -> str:
    return f"/apis/{api}/namespaces/{namespace}/podgroups"
