"""Shape: nodes, GPUs, partitions and time of a job, decided from what it asks for and what the
cluster has. Pure.

What SLURM would accept and leave pending for ever is refused here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.units import format_duration

DOCUMENTED = ("polar", "polar3", "polar4", "grizzly")
CLUSTER_DEFAULT = "cluster default partition"
DEFAULT_TIME = timedelta(hours=4)
CPUS_WITHOUT_GPU = 16
LEAD = (
    0.05  # of the time limit: the command is asked to end that much before it, to save what it has
)
MINUTE = timedelta(minutes=1)


class PartitionLimit(SpecError):
    """SLURM would take the job and never start it."""

    code = "slurm.partition_limit"


@dataclass(frozen=True)
class Shape:
    """What is asked of SLURM. `timeout`: seconds after which the command is asked to end, 0 for
    never.
    """

    nodes: int
    gpus: int  # per node
    cpus: int  # per node
    exclusive: bool
    partition: str  # as sbatch takes it; "" for the cluster's default
    time: timedelta
    timeout: float
    notes: tuple[str, ...] = ()


def shape(spec: JobSpec, options: SlurmOptions, facts: SlurmFacts) -> Shape:
    """Raises SpecError for what cannot be had, with what can."""
    chosen, notes = partitions(options, facts)
    payers = accounts(options.account or facts.site.account, facts)
    chosen, shut = open_ones(chosen, facts, payers)
    chosen, barred = of_the_qos(chosen, options.qos)
    largest = max((each.gpus for each in chosen), default=0) or (
        0 if facts.partitions else facts.site.gpus_per_node
    )
    nodes, gpus = spread(spec, largest)
    chosen, dropped = with_enough(chosen, nodes, gpus)
    time, told = wall_time(spec, facts, chosen, own_limit(facts, chosen, payers, options.qos))
    chosen, late = long_enough(chosen, time)
    exclusive = (
        options.exclusive if options.exclusive is not None else bool(gpus) and gpus >= largest
    )
    return Shape(
        nodes=nodes,
        gpus=gpus,
        cpus=cpus(spec, gpus, chosen, facts.site.cpus_per_gpu),
        exclusive=exclusive,
        partition=directive(options, facts, chosen),
        time=time,
        timeout=timeout(spec, options, facts, time),
        notes=(*notes, *shut, *barred, *dropped, *told, *late),
    )


def partitions(options: SlurmOptions, facts: SlurmFacts) -> tuple[list[Partition], list[str]]:
    """The partitions that the job may run in. Unless named: those of the documented ones that are
    there, else the default.
    """
    asked = options.partition or facts.site.partition
    if not asked:
        known = [name for name in DOCUMENTED if name in facts.partitions]
        if known:
            return [facts.partitions[name] for name in known], []
        note = (
            "No partition is named and the cluster has none of the documented ones: it runs in "
            "the cluster's default."
        )
        return default(facts), [note]
    if asked == CLUSTER_DEFAULT:
        return default(facts), []
    names = [name.strip() for name in asked.split(",") if name.strip()]
    for name in names:
        if name not in facts.partitions:
            raise no_partition(name, facts)
    return [facts.partitions[name] for name in names], []


def default(facts: SlurmFacts) -> list[Partition]:
    found = facts.default_partition
    if found is None:
        raise no_partition("", facts)
    return [found]


def no_partition(name: str, facts: SlurmFacts) -> SpecError:
    what = (
        f"The cluster has no partition {name!r}."
        if name
        else "The cluster has no default partition."
    )
    known = ", ".join(sorted(facts.partitions)) or "none that you may use"
    why = "One wrong name in a list fails all of it." if name else ""
    return SpecError(what, why, f"It has: {known}. Set SLURM_PARTITION, or use --partition.")


def directive(options: SlurmOptions, facts: SlurmFacts, chosen: Sequence[Partition]) -> str:
    asked = options.partition or facts.site.partition
    unnamed = not asked and not any(name in facts.partitions for name in DOCUMENTED)
    return "" if asked == CLUSTER_DEFAULT or unnamed else ",".join(each.name for each in chosen)


def accounts(named: str, facts: SlurmFacts) -> Sequence[str]:
    """Those that a job may be charged to: the one that it names, else one of the user's, of which
    the cluster chooses.
    """
    return [named] if named else facts.accounts


def open_ones(
    chosen: Sequence[Partition], facts: SlurmFacts, accounts: Sequence[str]
) -> tuple[list[Partition], list[str]]:
    """The partitions that take jobs of these accounts; all where none does, which a finding then
    tells.
    """
    taking = [each for each in chosen if facts.takes(each, accounts)]
    which = f"the account {', '.join(accounts)}, of which they take no jobs"
    return where_any(chosen, taking, which)


def of_the_qos(chosen: Sequence[Partition], qos: str) -> tuple[list[Partition], list[str]]:
    """The partitions that take jobs of the qos; all where none does, which a finding then tells."""
    taking = [each for each in chosen if each.takes_qos(qos)]
    return where_any(chosen, taking, f"the qos {qos}, of which they take no jobs")


def where_any(
    chosen: Sequence[Partition], taking: list[Partition], which: str
) -> tuple[list[Partition], list[str]]:
    """Those that take the job, and a note of the others; all where none does."""
    return (taking, left_out(chosen, taking, which)) if taking else (list(chosen), [])


def spread(spec: JobSpec, largest: int) -> tuple[int, int]:
    """(nodes, GPUs on each). Without num_nodes a gpu_count above a node's is the total, over the
    fewest nodes, evenly.
    """
    count = largest if spec.gpu_count < 0 else spec.gpu_count
    if spec.num_nodes is not None:
        if count > largest:
            raise too_many(count, largest)
        return spec.num_nodes, count
    if count <= largest or not largest:
        if count > largest:
            raise too_many(count, largest)
        return 1, count
    nodes = math.ceil(count / largest)
    if count % nodes:
        raise uneven(count, nodes, largest)
    return nodes, count // nodes


def too_many(count: int, largest: int) -> SpecError:
    has = (
        f"The largest node of these partitions has {largest} GPUs."
        if largest
        else "No node of these partitions has one."
    )
    fix = (
        "Leave num_nodes out, and gpu_count is the total; or ask for fewer."
        if largest
        else "Choose another partition."
    )
    return FieldError("gpu_count", f"gpu_count is {count}, which is per node.", has, fix)


def uneven(count: int, nodes: int, largest: int) -> SpecError:
    below = next(each for each in range(count - 1, 0, -1) if each % math.ceil(each / largest) == 0)
    above = next(
        each for each in range(count + 1, count * 2) if each % math.ceil(each / largest) == 0
    )
    return SpecError(
        f"{count} GPUs do not spread evenly over {nodes} nodes of {largest}.",
        "Every node of a job has as many as the others.",
        f"Ask for {below} ({laid_out(below, largest)}) or {above} "
        f"({laid_out(above, largest)}), or say num_nodes yourself.",
    )


def laid_out(count: int, largest: int) -> str:
    nodes = math.ceil(count / largest)
    return f"{nodes} x {count // nodes}"


def with_enough(
    chosen: Sequence[Partition], nodes: int, gpus: int
) -> tuple[list[Partition], list[str]]:
    """The partitions that can ever hold the job."""
    enough = [each for each in chosen if fits(each, nodes, gpus)]
    if enough:
        return enough, left_out(chosen, enough, f"{nodes} nodes with {gpus} GPUs")
    first = chosen[0]
    if gpus > first.gpus:
        raise too_many(gpus, first.gpus)
    most = min(first.nodes, first.max_nodes if first.max_nodes is not None else first.nodes)
    names = ", ".join(each.name for each in chosen)
    raise PartitionLimit(
        f"{nodes} nodes are more than a job may have in {names} ({most}).",
        "SLURM would take the job and never start it.",
        f"Use --nodes {most}, or another partition.",
    )


def fits(partition: Partition, nodes: int, gpus: int) -> bool:
    most = (
        partition.nodes
        if partition.max_nodes is None
        else min(partition.nodes, partition.max_nodes)
    )
    return nodes <= most and gpus <= partition.gpus


def own_limit(
    facts: SlurmFacts, chosen: Sequence[Partition], payers: Sequence[str], qos: str
) -> tuple[timedelta | None, str]:
    """What the job's qos or account allows, whatever the partition does, and the words for it.
    None: no limit, or none known.
    """
    if any(each.own_qos for each in chosen):
        return None, ""
    limits = [facts.longest(each, qos) for each in payers or [""]]
    known = [each for each in limits if each is not None]
    by_qos = qos and facts.qos.get(qos.lower())
    whose = (
        f" with qos {qos}" if by_qos else f" with account {' or '.join(payers)}" if payers else ""
    )
    return (max(known), whose) if len(known) == len(limits) else (None, "")


def wall_time(
    spec: JobSpec, facts: SlurmFacts, chosen: Sequence[Partition], own: tuple[timedelta | None, str]
) -> tuple[timedelta, list[str]]:
    """The time limit, and notes. One that was asked for has to be allowed; the default is shortened
    to what is allowed.
    """
    longest, (cap, whose) = longest_time(chosen), own
    if cap is not None:
        longest = cap if longest is None else min(longest, cap)
    where = ", ".join(each.name for each in chosen) + (
        whose if cap is not None and longest == cap else ""
    )
    asked = spec.time_limit or facts.site.time
    if asked is None:
        if longest is not None and longest < DEFAULT_TIME:
            return longest, [
                (
                    f"The time limit is {format_duration(longest)}, all that "
                    f"{where} allows; the default is 4h."
                )
            ]
        return DEFAULT_TIME, []
    if longest is not None and asked > longest:
        raise too_long(asked, longest, where, facts if cap is None or asked <= cap else None)
    return asked, []


def longest_time(chosen: Sequence[Partition]) -> timedelta | None:
    """None: without limit."""
    limits = [each.max_time for each in chosen]
    return None if None in limits else max(each for each in limits if each is not None)


def too_long(
    asked: timedelta, longest: timedelta, where: str, facts: SlurmFacts | None
) -> PartitionLimit:
    """`facts` where another partition might allow it."""
    known = facts.partitions.values() if facts else ()
    longer = [each.name for each in known if each.max_time is None or each.max_time >= asked]
    other = f", or --partition {longer[0]}, which allows it" if longer else ""
    return PartitionLimit(
        f"{format_duration(asked)} is longer than {where} allows ({format_duration(longest)}).",
        "SLURM would take the job and never start it.",
        f"Use --time-limit {format_duration(longest)}{other}.",
    )


def long_enough(chosen: Sequence[Partition], time: timedelta) -> tuple[list[Partition], list[str]]:
    enough = [each for each in chosen if each.max_time is None or each.max_time >= time]
    return enough or list(chosen), left_out(
        chosen, enough or chosen, f"a time limit of {format_duration(time)}"
    )


def left_out(chosen: Sequence[Partition], kept: Sequence[Partition], what: str) -> list[str]:
    gone = [each.name for each in chosen if each not in kept]
    return [f"Not asked for, because of {what}: {', '.join(gone)}."] if gone else []


def cpus(spec: JobSpec, gpus: int, chosen: Sequence[Partition], per_gpu: int) -> int:
    """Per node; the default is no more than a node has."""
    if spec.cpus is not None:
        return math.ceil(spec.cpus)
    has = min((each.cpus for each in chosen if each.cpus), default=0)
    wanted = per_gpu * gpus if gpus else CPUS_WITHOUT_GPU
    return max(1, min(wanted, has) if has else wanted)


def timeout(spec: JobSpec, options: SlurmOptions, facts: SlurmFacts, time: timedelta) -> float:
    """When the command is asked to end: as asked, else somewhat before SLURM ends it."""
    if options.timeout is not None:
        return min(options.timeout, time).total_seconds()
    if spec.time_limit is None and facts.site.timeout is not None:
        return min(facts.site.timeout, time).total_seconds()
    return min(time.total_seconds(), round(slurm_seconds(time) * (1 - LEAD), 3))


def slurm_seconds(time: timedelta) -> float:
    """What SLURM makes of a time limit: whole minutes."""
    return max(1, math.ceil(time / MINUTE)) * 60.0


def minutes(time: timedelta) -> str:
    """As sbatch has it, in whole minutes: it knows no shorter ones."""
    total = int(slurm_seconds(time) / 60)
    days, rest = divmod(total, 24 * 60)
    clock = f"{rest // 60:02}:{rest % 60:02}:00"
    return f"{days}-{clock}" if days else clock
