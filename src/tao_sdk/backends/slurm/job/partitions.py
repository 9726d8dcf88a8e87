"""Partitions: the partitions for a job, narrowed step by step to those that can run it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.model.errors import SpecError
from tao_sdk.model.units import format_duration

DOCUMENTED = ("polar", "polar3", "polar4", "grizzly")
CLUSTER_DEFAULT = "cluster default partition"


@dataclass(frozen=True)
class PartitionChoice:
    """Partitions that SLURM may choose from, and notes on the ones left out."""

    partitions: list[Partition]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> str:
        return ", ".join(partition.name for partition in self.partitions)

    def narrow(self, can_run: Callable[[Partition], bool], requirement: str) -> PartitionChoice:
        """Keep the partitions that can run the job, with a note on the others.

        If none can, the choice stays unchanged. Then another check gives an error or a finding.
        """
        able = [partition for partition in self.partitions if can_run(partition)]
        if not able:
            return self
        dropped = [partition.name for partition in self.partitions if partition not in able]
        if not dropped:
            return self
        note = f"Not asked for, because of {requirement}: {', '.join(dropped)}."
        return PartitionChoice(able, (*self.notes, note))

    def add_notes(self, *notes: str) -> PartitionChoice:
        return replace(self, notes=(*self.notes, *notes))


def choose_partitions(
    options: SlurmOptions, facts: SlurmFacts, payers: Sequence[str]
) -> PartitionChoice:
    """The partitions that take jobs of these accounts and this qos. Raises SpecError."""
    choice = requested_partitions(options, facts)
    choice = choice.narrow(
        lambda partition: facts.takes_accounts(partition, payers),
        f"the account {', '.join(payers)}, of which they take no jobs",
    )
    return choice.narrow(
        lambda partition: partition.takes_qos(options.qos),
        f"the qos {options.qos}, of which they take no jobs",
    )


def requested_partitions(options: SlurmOptions, facts: SlurmFacts) -> PartitionChoice:
    """The named partitions, else the documented ones, else the cluster's default."""
    request = partition_request(options, facts)
    if not request:
        return unnamed_partitions(facts)
    if request == CLUSTER_DEFAULT:
        return PartitionChoice([default_partition(facts)])
    partitions = [find_partition(name, facts) for name in split_names(request)]
    return PartitionChoice(partitions)


def split_names(text: str) -> list[str]:
    """The names in a comma-separated list."""
    stripped = [name.strip() for name in text.split(",")]
    return [name for name in stripped if name]


def find_partition(name: str, facts: SlurmFacts) -> Partition:
    """The partition of that name. Raises SpecError if the cluster does not have it."""
    if name not in facts.partitions:
        raise unknown_partition(name, facts)
    return facts.partitions[name]


def partition_request(options: SlurmOptions, facts: SlurmFacts) -> str:
    """The partitions of the job, else the settings: comma-separated, CLUSTER_DEFAULT, or ""."""
    return options.partition or facts.site.partition


def unnamed_partitions(facts: SlurmFacts) -> PartitionChoice:
    documented = documented_partitions(facts)
    if documented:
        return PartitionChoice(documented)
    note = (
        "No partition is named and the cluster has none of the documented ones: it runs in "
        "the cluster's default."
    )
    return PartitionChoice([default_partition(facts)], (note,))


def documented_partitions(facts: SlurmFacts) -> list[Partition]:
    return [facts.partitions[name] for name in DOCUMENTED if name in facts.partitions]


def default_partition(facts: SlurmFacts) -> Partition:
    if facts.default_partition is None:
        raise SpecError("The cluster has no default partition.", "", name_another(facts))
    return facts.default_partition


def unknown_partition(name: str, facts: SlurmFacts) -> SpecError:
    return SpecError(
        f"The cluster has no partition {name!r}.",
        "One wrong name in a list fails all of it.",
        name_another(facts),
    )


def name_another(facts: SlurmFacts) -> str:
    known = ", ".join(sorted(facts.partitions)) or "none that you may use"
    return f"It has: {known}. Set SLURM_PARTITION, or use --partition."


def partition_directive(options: SlurmOptions, facts: SlurmFacts, choice: PartitionChoice) -> str:
    """The value of sbatch's --partition; "" leaves it out, for the cluster's default."""
    request = partition_request(options, facts)
    if request == CLUSTER_DEFAULT:
        return ""
    if not request and not documented_partitions(facts):
        return ""
    return ",".join(partition.name for partition in choice.partitions)


def possible_accounts(named: str, facts: SlurmFacts) -> Sequence[str]:
    """The accounts that may be charged: the named one, else all of the user's.

    If there are several, the cluster chooses.
    """
    if named:
        return [named]
    return facts.accounts


def most_nodes(partition: Partition) -> int:
    """The most nodes that one job may have in the partition."""
    if partition.max_nodes is None:
        return partition.nodes
    return min(partition.nodes, partition.max_nodes)


def can_hold(partition: Partition, nodes: int, gpus: int) -> bool:
    """True if the partition allows `nodes` nodes and has `gpus` GPUs per node."""
    return nodes <= most_nodes(partition) and gpus <= partition.gpus


def has_cpus(partition: Partition, cpus: int) -> bool:
    """True if a node of the partition has `cpus` CPUs, or if that is not known."""
    return not partition.cpus or cpus <= partition.cpus


def allows_time(partition: Partition, time: timedelta) -> bool:
    return partition.max_time is None or partition.max_time >= time


def drop_short_partitions(choice: PartitionChoice, time: timedelta) -> PartitionChoice:
    """Leave out the partitions whose time limit is shorter than the job's."""
    return choice.narrow(
        lambda partition: allows_time(partition, time),
        f"a time limit of {format_duration(time)}",
    )
