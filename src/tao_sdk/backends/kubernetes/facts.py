"""KubernetesFacts: what was seen of a cluster when a job was planned, and what the settings say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tao_sdk.model.finding import Finding


@dataclass(frozen=True)
class Node:
    """One node: what it has, what it has left, and who may use it."""

    name: str
    allocatable: Mapping[str, float] = field(default_factory=dict[str, float])
    used: Mapping[str, float] = field(default_factory=dict[str, float])  # asked for by pods there
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[Mapping[str, str], ...] = ()  # without those of a cordon
    cordoned: bool = False
    ready: bool = True
    images: tuple[str, ...] = ()  # that it has; a kubelet names the largest fifty

    def free(self, resource: str) -> float:
        return self.allocatable.get(resource, 0) - self.used.get(resource, 0)


@dataclass(frozen=True)
class KubernetesFacts:
    """What render and check may know. survey fills it, and asks for no more than the job needs."""

    namespace: str = "default"  # of a job that names none
    cluster: str = ""  # the backend's endpoint
    context: str = ""  # of the kubeconfig
    pull_registry: str = ""  # the image's registry, where a pull secret can be made for it
    nodes: tuple[Node, ...] | None = None  # None: they may not be listed, or were not asked for
    nodes_unseen: str = ""  # why they are not known
    holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    # node -> `namespace/pod (n)` of the pods that hold GPUs there
    use_unseen: bool = False  # what the pods of the nodes hold is not known
    gang_scheduler: str = ""  # the one that starts all ranks at once (job/pod_group.py), or ""
    refusals: tuple[Finding, ...] = ()  # what the cluster would refuse, and what is missing there
