"""KubernetesFacts: the state of a cluster when a job was planned, and the settings' part in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tao_sdk.model.finding import Finding


@dataclass(frozen=True)
class Node:
    """One node: its resources, how much of them is in use, and which pods may use it."""

    name: str
    allocatable: Mapping[str, float] = field(default_factory=dict[str, float])
    used: Mapping[str, float] = field(default_factory=dict[str, float])  # requests of its pods
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[Mapping[str, str], ...] = ()  # without those of a cordon
    cordoned: bool = False
    ready: bool = True
    images: tuple[str, ...] = ()  # present images; a kubelet reports the fifty largest

    def free(self, resource: str) -> float:
        return self.allocatable.get(resource, 0) - self.used.get(resource, 0)


@dataclass(frozen=True)
class KubernetesFacts:
    """Input of render and check. survey fills it, and queries only what the job needs."""

    namespace: str = "default"  # of a job that names none
    cluster: str = ""  # the backend's endpoint
    context: str = ""  # of the kubeconfig
    pull_registry: str = ""  # the image's registry, where a pull secret can be made for it
    nodes: tuple[Node, ...] | None = None  # None: no right to list them, or not queried
    nodes_unseen: str = ""  # why the nodes are not known
    holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    # node -> `namespace/pod (n)` of the pods that hold GPUs there
    use_unseen: bool = False  # True if the resources in use on the nodes are not known
    gang_scheduler: str = ""  # the one that starts all ranks at once (job/pod_group.py), or ""
    refusals: tuple[Finding, ...] = ()  # findings: what the cluster would refuse, what is missing
