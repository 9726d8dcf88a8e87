"""The cluster's nodes: their resources, and the pods that hold their GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tao_sdk.backends.kubernetes import look, parse
from tao_sdk.backends.kubernetes.facts import Node
from tao_sdk.backends.kubernetes.job.fitting import quantity
from tao_sdk.backends.kubernetes.parse import Object
from tao_sdk.transports.kube import Kube

CORDON = "node.kubernetes.io/unschedulable"
LIVE = "status.phase!=Succeeded,status.phase!=Failed"


def list_nodes(kube: Kube) -> tuple[Node, ...]:
    """All nodes of the cluster. Raises KubeError without the right to list them."""
    return tuple(map(read_node, look.items(kube, "/api/v1/nodes")))


def read_node(found: Object) -> Node:
    metadata, spec, status = found["metadata"], found["spec"], found["status"]
    allocatable: Mapping[str, str] = status.get("allocatable") or {}
    taints = [taint for taint in spec.get("taints") or () if taint.get("key") != CORDON]
    return Node(
        name=metadata["name"],
        allocatable={name: quantity(text) for name, text in allocatable.items()},
        labels=metadata.get("labels") or {},
        taints=tuple(taint for taint in taints if not is_of_state(taint)),
        cordoned=bool(spec.get("unschedulable")),
        ready=parse.condition(found, "Ready") is not None,
        images=tuple(image_names(status)),
    )


def image_names(status: Object) -> Iterator[str]:
    for image in status.get("images") or ():
        yield from image.get("names") or ()


def is_of_state(taint: Mapping[str, str]) -> bool:
    """True for a taint that the cluster sets while a node is not ready."""
    return str(taint.get("key", "")).startswith(("node.kubernetes.io/", "node.cloudprovider."))


def with_use(
    kube: Kube, nodes: Sequence[Node], resource: str
) -> tuple[tuple[Node, ...], dict[str, tuple[str, ...]]]:
    """(the nodes with their pods' requests, node -> the pods that hold the resource).

    Raises KubeError without the right to list all pods.
    """
    used: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    holders: dict[str, list[str]] = defaultdict(list)
    for pod in look.items(kube, "/api/v1/pods", fieldSelector=LIVE):
        node = pod["spec"].get("nodeName")
        if not node:
            continue
        asked = requests_of(pod)
        for name, count in asked.items():
            used[node][name] += count
        if asked.get(resource):
            metadata = pod["metadata"]
            holders[node].append(
                f"{metadata['namespace']}/{metadata['name']} ({asked[resource]:g})"
            )
    known = tuple(replace(node, used=dict(used[node.name])) for node in nodes)
    return known, {node: tuple(pods) for node, pods in holders.items()}


def requests_of(pod: Object) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for container in pod["spec"].get("containers") or ():
        asked = parse.part(parse.part(container, "resources"), "requests")
        for name, text in asked.items():
            total[name] += quantity(text)
    return dict(total)
