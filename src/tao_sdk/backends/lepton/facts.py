"""LeptonFacts: the state of a workspace when a job was planned."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shape:
    """A resource shape: what each node of a job gets."""

    id: str
    group: str  # the id of the node group that has it
    gpus: int = 0
    cpus: float = 0
    memory_mib: int = 0
    gpu_type: str = ""


@dataclass(frozen=True)
class Node:
    """One node of a group. `holders`: who has its GPUs, as `name (n)`."""

    name: str
    gpus: int
    used: int
    usable: bool = True
    holders: tuple[str, ...] = ()

    @property
    def free(self) -> int:
        return max(self.gpus - self.used, 0) if self.usable else 0


@dataclass(frozen=True)
class Group:
    """A dedicated node group."""

    id: str
    name: str
    nodes: tuple[Node, ...] | None = None  # None: not asked for, or not told
    volumes: Mapping[str, str] = field(default_factory=dict[str, str])
    # volume -> the path below which this caller may use it

    @property
    def free(self) -> int:
        """The free GPUs of all nodes."""
        return sum(node.free for node in self.nodes or ())

    def allowed_nodes(self, node_ids: Collection[str]) -> list[Node]:
        """The nodes that a job may run on: all, unless it names some."""
        return [node for node in self.nodes or () if not node_ids or node.name in node_ids]


@dataclass(frozen=True)
class LeptonFacts:
    """Input of render and check. survey fills it, and asks only for what the job needs."""

    workspace: str = ""
    groups: tuple[Group, ...] = ()
    shapes: tuple[Shape, ...] = ()
    pull_secret: str = ""  # the name of the secret that submit makes of NGC_KEY; "" for none
