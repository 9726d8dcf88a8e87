"""SlurmFacts: what was seen of a cluster, and what the caller's settings say of it, when a job was planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tao_sdk.backends.slurm.site import Site


@dataclass(frozen=True)
class Partition:
    """What a partition has and allows. None: no limit; the node's figures are those of its largest nodes."""

    name: str
    nodes: int = 0
    gpus: int = 0  # per node
    cpus: int = 0
    max_time: timedelta | None = None
    max_nodes: int | None = None
    default: bool = False
    up: bool = True
    accounts: tuple[str, ...] = ()  # that may use it; empty: all


@dataclass(frozen=True)
class SlurmFacts:
    """`base` is the base directory as the cluster resolves it; `accounts` are the user's, where there is accounting."""

    site: Site
    seen_at: datetime
    cluster: str = ""
    version: str = ""
    user: str = ""
    base: str = ""
    partitions: Mapping[str, Partition] = field(default_factory=dict[str, Partition])
    accounting: bool = False
    kill_wait: int = 30  # seconds between SIGTERM and SIGKILL
    accounts: tuple[str, ...] = ()
    qos: Mapping[str, timedelta | None] = field(default_factory=dict[str, "timedelta | None"])
    pyxis: bool = False
    programs: tuple[str, ...] = ()  # of enroot, apptainer, singularity
    folders: tuple[str, ...] = ()  # of those that are mounted by default, such as /lustre

    @property
    def default_partition(self) -> Partition | None:
        return next((each for each in self.partitions.values() if each.default), None)
