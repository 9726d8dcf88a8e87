"""SlurmFacts: the facts about a cluster for a job's plan, and the caller's settings for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tao_sdk.backends.slurm.cluster.site import Site

USUAL_QOS = "normal"  # the qos of an account without another default
ROOT = "root"  # the account above all others


@dataclass(frozen=True)
class Partition:
    """The size and the limits of a partition. Figures per node are those of its largest nodes.

    None means no limit.
    """

    name: str
    nodes: int = 0
    gpus: int = 0  # per node
    cpus: int = 0  # per node; 0: not known
    most_cpus: int | None = None  # limit per node for all jobs of the partition together
    max_time: timedelta | None = None
    max_nodes: int | None = None
    default: bool = False
    up: bool = True
    accounts: tuple[str, ...] = ()  # accounts that may use it; empty: all
    denied: tuple[str, ...] = ()  # accounts that may not use it
    qos: tuple[str, ...] = ()  # qos that may use it; empty: all
    denied_qos: tuple[str, ...] = ()  # qos that may not use it
    own_qos: str = ""  # a qos with limits that win over those of the job's qos and account

    def takes_qos(self, qos: str) -> bool:
        """True if jobs of this qos may start here, and for ""."""
        if not qos:
            return True
        if self.qos:
            return qos.lower() in self.qos
        return qos.lower() not in self.denied_qos


@dataclass(frozen=True)
class SlurmFacts:
    """The facts about a cluster.

    `base`: the base directory, as the cluster resolves it. `accounts`: the user's accounts, if the
    cluster has accounting. `parent_accounts`: account -> the accounts above it in the cluster's
    tree. It is read only if a partition takes only some accounts.
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
    parent_accounts: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    qos: Mapping[str, timedelta | None] = field(default_factory=dict[str, "timedelta | None"])
    # account -> the longest time of a job
    longest_times: Mapping[str, timedelta] = field(default_factory=dict[str, timedelta])
    # account -> the qos of a job that names none
    default_qos: Mapping[str, str] = field(default_factory=dict[str, str])
    pyxis: bool = False
    programs: tuple[str, ...] = ()  # the installed ones of enroot, apptainer, singularity
    folders: tuple[str, ...] = ()  # existing folders that are mounted by default, such as /lustre
    images: tuple[str, ...] = ()  # file names of the converted `:latest` images

    @property
    def default_partition(self) -> Partition | None:
        return next((each for each in self.partitions.values() if each.default), None)

    def longest_time(self, account: str, qos: str) -> timedelta | None:
        """The time limit of the qos, else of the account. None: no limit."""
        used = (qos or self.default_qos.get(account.lower(), USUAL_QOS)).lower()
        return self.qos.get(used) or self.longest_times.get(account.lower())

    def takes_accounts(self, partition: Partition, accounts: Sequence[str]) -> bool:
        """True if at least one of the accounts may use the partition. True also without accounts:
        then nothing is known of them.
        """
        return not accounts or any(self.takes_account(partition, each.lower()) for each in accounts)

    def takes_account(self, partition: Partition, account: str) -> bool:
        """True if jobs of the account may start in the partition.

        Newer versions of SLURM also take the accounts below those that the partition names. If the
        tree of accounts is not known, every account may start.
        """
        if not partition.accounts:
            return account not in partition.denied
        parents = self.parent_accounts.get(account, frozenset[str]())
        unseen = self.accounting and ROOT not in parents
        return unseen or not {account, *parents}.isdisjoint(partition.accounts)
