"""SlurmFacts: what was seen of a cluster, and what the caller's settings say of it, when a job was
planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tao_sdk.backends.slurm.cluster.site import Site

USUAL_QOS = "normal"  # of an account that has no other
ROOT = "root"  # the account above all others


@dataclass(frozen=True)
class Partition:
    """What a partition has and allows. None: no limit; the node's figures are those of its largest
    nodes.
    """

    name: str
    nodes: int = 0
    gpus: int = 0  # per node
    cpus: int = 0  # per node; 0: not known
    most_cpus: int | None = None  # of one node, for all jobs of the partition together
    max_time: timedelta | None = None
    max_nodes: int | None = None
    default: bool = False
    up: bool = True
    accounts: tuple[str, ...] = ()  # that may use it; empty: all
    denied: tuple[str, ...] = ()  # accounts that may not
    qos: tuple[str, ...] = ()  # that may use it; empty: all
    denied_qos: tuple[str, ...] = ()  # qos that may not
    own_qos: str = ""  # whose limits count before those of the job's own qos and account

    def takes_qos(self, qos: str) -> bool:
        """True if jobs of the qos may start here; also for a job that names no qos."""
        if not qos:
            return True
        if self.qos:
            return qos.lower() in self.qos
        return qos.lower() not in self.denied_qos


@dataclass(frozen=True)
class SlurmFacts:
    """`base` is the base directory as the cluster resolves it; `accounts` are the user's, where
    there is accounting.

    `above`: account -> those above it in the cluster's tree; asked for only where a partition takes
    but some accounts.
    """

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
    above: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    qos: Mapping[str, timedelta | None] = field(default_factory=dict[str, "timedelta | None"])
    walls: Mapping[str, timedelta] = field(
        default_factory=dict[str, timedelta]
    )  # account -> a job's longest time
    default_qos: Mapping[str, str] = field(
        default_factory=dict[str, str]
    )  # account -> that of a job that names none
    pyxis: bool = False
    programs: tuple[str, ...] = ()  # of enroot, apptainer, singularity
    folders: tuple[str, ...] = ()  # of those that are mounted by default, such as /lustre

    @property
    def default_partition(self) -> Partition | None:
        return next((each for each in self.partitions.values() if each.default), None)

    def longest_time(self, account: str, qos: str) -> timedelta | None:
        """The time limit of the qos, else of the account; None for no limit."""
        used = (qos or self.default_qos.get(account.lower(), USUAL_QOS)).lower()
        return self.qos.get(used) or self.walls.get(account.lower())

    def takes_accounts(self, partition: Partition, accounts: Sequence[str]) -> bool:
        """True if jobs of one of the accounts may start in the partition; also without accounts."""
        return not accounts or any(self.takes_account(partition, each.lower()) for each in accounts)

    def takes_account(self, partition: Partition, account: str) -> bool:
        """True if jobs of the account may start in the partition.

        Newer SLURMs also take the accounts below those that the partition names. Where the tree of
        accounts is not known, every account may start.
        """
        if not partition.accounts:
            return account not in partition.denied
        above = self.above.get(account, frozenset[str]())
        unseen = self.accounting and ROOT not in above
        return unseen or not {account, *above}.isdisjoint(partition.accounts)
