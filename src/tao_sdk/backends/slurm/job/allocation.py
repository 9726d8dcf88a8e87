"""Allocation: nodes, GPUs, CPUs, partitions and time of a job. Pure.

They follow from the job's requests and the cluster's size. A request that SLURM would accept and
leave pending for ever is refused here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from tao_sdk.backends.gpu_spread import fewer_nodes, spread_gpus, too_many_gpus
from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.job.partitions import (
    PartitionChoice,
    allows_time,
    can_hold,
    choose_partitions,
    drop_short_partitions,
    has_cpus,
    most_nodes,
    partition_directive,
    possible_accounts,
)
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.units import format_duration

DEFAULT_TIME = timedelta(hours=4)
CPUS_WITHOUT_GPU = 16
# The command gets SIGTERM early by this fraction of the time limit, so that it can save its work.
LEAD = 0.05
MINUTE = timedelta(minutes=1)
OF_PARTITIONS = "of these partitions"
NEVER_STARTS = "SLURM would take the job and never start it."


class PartitionLimit(SpecError):
    """SLURM would take the job and never start it."""

    code = "slurm.partition_limit"


@dataclass(frozen=True)
class Allocation:
    """The request to SLURM for one job's resources."""

    nodes: int
    gpus: int  # per node
    cpus: int  # per node
    exclusive: bool
    partition: str  # as sbatch takes it; "" for the cluster's default
    time: timedelta
    timeout: float  # seconds after which the command is asked to end; 0 for never
    notes: tuple[str, ...] = ()


def plan_allocation(spec: JobSpec, options: SlurmOptions, facts: SlurmFacts) -> Allocation:
    """Decide the allocation.

    Raises SpecError if the cluster cannot give it. The error says what the cluster can give.
    """
    payers = possible_accounts(options.account or facts.site.account, facts)
    choice = choose_partitions(options, facts, payers)
    largest = largest_gpu_count(choice, facts)
    nodes, gpus = spread_gpus(spec, largest, OF_PARTITIONS)
    choice = drop_small_partitions(choice, nodes, gpus)
    known = facts.partitions.values()
    able = [partition for partition in known if can_hold(partition, nodes, gpus)]
    choice = drop_weak_partitions(choice, requested_cpus(spec), able)
    limit = time_limit(choice, account_limit(facts, choice, payers, options.qos))
    time, time_notes = choose_time(spec, facts, limit)
    choice = drop_short_partitions(choice.add_notes(*time_notes), time)
    return Allocation(
        nodes=nodes,
        gpus=gpus,
        cpus=requested_cpus(spec) or default_cpus(gpus, choice, facts.site.cpus_per_gpu),
        exclusive=is_exclusive(options, gpus, largest),
        partition=partition_directive(options, facts, choice),
        time=time,
        timeout=choose_timeout(spec, options, facts, time),
        notes=choice.notes,
    )


# Nodes, GPUs, CPUs


def largest_gpu_count(choice: PartitionChoice, facts: SlurmFacts) -> int:
    """GPUs of the largest node; the site's setting if the cluster shows no partition."""
    largest = max((partition.gpus for partition in choice.partitions), default=0)
    if not largest and not facts.partitions:
        return facts.site.gpus_per_node
    return largest


def drop_small_partitions(choice: PartitionChoice, nodes: int, gpus: int) -> PartitionChoice:
    """Leave out the partitions that can never hold the job. Raises SpecError if none can."""
    if any(can_hold(partition, nodes, gpus) for partition in choice.partitions):
        return choice.narrow(
            lambda partition: can_hold(partition, nodes, gpus), f"{nodes} nodes with {gpus} GPUs"
        )
    first = choice.partitions[0]
    if gpus > first.gpus:
        raise too_many_gpus(gpus, first.gpus, OF_PARTITIONS)
    most = most_nodes(first)
    raise PartitionLimit(
        f"{nodes} nodes are more than a job may have in {choice.names} ({most}).",
        NEVER_STARTS,
        f"{fewer_nodes(most, gpus)} Or choose another partition.",
    )


def is_exclusive(options: SlurmOptions, gpus: int, largest: int) -> bool:
    """True if the job needs whole nodes: the option's value, else if it takes all their GPUs."""
    if options.exclusive is not None:
        return options.exclusive
    return gpus > 0 and gpus >= largest


def requested_cpus(spec: JobSpec) -> int:
    """The CPUs that the job asks for per node, rounded up; 0 if it names none."""
    return math.ceil(spec.cpus or 0)


def default_cpus(gpus: int, choice: PartitionChoice, per_gpu: int) -> int:
    """CPUs per node for a job that names none: at most what every chosen partition has."""
    wanted = CPUS_WITHOUT_GPU
    if gpus:
        wanted = per_gpu * gpus
    known = [partition.cpus for partition in choice.partitions if partition.cpus]
    return max(1, min([wanted, *known]))


def drop_weak_partitions(
    choice: PartitionChoice, cpus: int, able: Sequence[Partition]
) -> PartitionChoice:
    """Leave out the partitions without a node of `cpus` CPUs. Raises SpecError if none has one.

    `able`: all partitions that have enough nodes and GPUs for the job.
    """
    if any(has_cpus(partition, cpus) for partition in choice.partitions):
        return choice.narrow(lambda partition: has_cpus(partition, cpus), f"{cpus} CPUs per node")
    raise too_many_cpus(cpus, choice, able)


def too_many_cpus(cpus: int, choice: PartitionChoice, able: Sequence[Partition]) -> SpecError:
    """The error for too many CPUs. It names another partition if that has enough per node."""
    largest = max(partition.cpus for partition in choice.partitions)
    return FieldError(
        "cpus",
        f"cpus is {cpus}, which is per node.",
        f"The largest node of {choice.names} has {largest} CPUs. {NEVER_STARTS}",
        f"Ask for {largest} or fewer{larger_partition(cpus, able)}.",
    )


def larger_partition(cpus: int, able: Sequence[Partition]) -> str:
    """`, or use --partition NAME, whose nodes have 128`; "" if no partition has enough CPUs."""
    for partition in able:
        if partition.up and partition.cpus >= cpus:
            return f", or use --partition {partition.name}, whose nodes have {partition.cpus}"
    return ""


# Time


@dataclass(frozen=True)
class TimeLimit:
    """The longest time that the cluster allows the job, and the source of the limit."""

    longest: timedelta | None  # None: no limit, or none known
    source: str  # `polar`, `polar with account vision`
    by_account: timedelta | None = None  # the limit of the qos or the account in any partition


def account_limit(
    facts: SlurmFacts, choice: PartitionChoice, payers: Sequence[str], qos: str
) -> TimeLimit:
    """The limit of the job's qos or account. No limit if a partition has a qos of its own."""
    no_limit = TimeLimit(None, "")
    if any(partition.own_qos for partition in choice.partitions):
        return no_limit
    longest = longest_limit([facts.longest_time(account, qos) for account in payers or [""]])
    if longest is None:
        return no_limit
    return TimeLimit(longest, limit_source(facts, payers, qos), longest)


def limit_source(facts: SlurmFacts, payers: Sequence[str], qos: str) -> str:
    if qos and facts.qos.get(qos.lower()):
        return f" with qos {qos}"
    if payers:
        return f" with account {' or '.join(payers)}"
    return ""


def time_limit(choice: PartitionChoice, account: TimeLimit) -> TimeLimit:
    """The stricter of the partitions' and the account's limits."""
    partition = longest_limit([partition.max_time for partition in choice.partitions])
    if account.longest is None:
        return TimeLimit(partition, choice.names)
    if partition is not None and partition < account.longest:
        return TimeLimit(partition, choice.names, account.longest)
    return TimeLimit(account.longest, f"{choice.names}{account.source}", account.longest)


def longest_limit(limits: Sequence[timedelta | None]) -> timedelta | None:
    """The longest of the time limits; None (no limit) if one of them is None."""
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits):
        return None
    return max(known)


def choose_time(
    spec: JobSpec, facts: SlurmFacts, limit: TimeLimit
) -> tuple[timedelta, tuple[str, ...]]:
    """Return (the job's time limit, notes).

    Raises PartitionLimit if the requested time is not allowed. The default is shortened to the
    limit.
    """
    asked = spec.time_limit or facts.site.time
    if asked is None:
        return default_time(limit)
    if limit.longest is not None and asked > limit.longest:
        raise too_long(asked, limit.longest, limit, facts)
    return asked, ()


def default_time(limit: TimeLimit) -> tuple[timedelta, tuple[str, ...]]:
    if limit.longest is None or limit.longest >= DEFAULT_TIME:
        return DEFAULT_TIME, ()
    note = (
        f"The time limit is {format_duration(limit.longest)}, all that {limit.source} allows; "
        f"the default is 4h."
    )
    return limit.longest, (note,)


def too_long(
    asked: timedelta, longest: timedelta, limit: TimeLimit, facts: SlurmFacts
) -> PartitionLimit:
    """The error for a time that is too long.

    It names another partition if that helps. It does not help against the account's limit.
    """
    another = ""
    if limit.by_account is None or asked <= limit.by_account:
        another = longer_partition(asked, facts)
    return PartitionLimit(
        f"{format_duration(asked)} is longer than {limit.source} allows "
        f"({format_duration(longest)}).",
        NEVER_STARTS,
        f"Use --time-limit {format_duration(longest)}{another}.",
    )


def longer_partition(asked: timedelta, facts: SlurmFacts) -> str:
    """`, or --partition NAME, which allows it`; "" if no partition does."""
    for partition in facts.partitions.values():
        if allows_time(partition, asked):
            return f", or --partition {partition.name}, which allows it"
    return ""


def choose_timeout(
    spec: JobSpec, options: SlurmOptions, facts: SlurmFacts, time: timedelta
) -> float:
    """Seconds until the command gets SIGTERM: as requested, else LEAD before SLURM's limit."""
    if options.timeout is not None:
        return min(options.timeout, time).total_seconds()
    if spec.time_limit is None and facts.site.timeout is not None:
        return min(facts.site.timeout, time).total_seconds()
    return min(time.total_seconds(), round(slurm_seconds(time) * (1 - LEAD), 3))


def slurm_seconds(time: timedelta) -> float:
    """The time limit as SLURM rounds it up to whole minutes, in seconds."""
    return max(1, math.ceil(time / MINUTE)) * 60.0


def format_minutes(time: timedelta) -> str:
    """The time in sbatch's form, `1-04:30:00`, in whole minutes: sbatch has no finer unit."""
    total = int(slurm_seconds(time) / 60)
    days, rest = divmod(total, 24 * 60)
    clock = f"{rest // 60:02}:{rest % 60:02}:00"
    if not days:
        return clock
    return f"{days}-{clock}"
