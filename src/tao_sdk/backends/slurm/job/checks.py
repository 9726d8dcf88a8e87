"""Checks: what would stop a planned job on this cluster, and what its user should know. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tao_sdk.backends.mounts import Mount, cache_finding, unmounted_finding
from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.images import containers
from tao_sdk.backends.slurm.images.containers import NONE
from tao_sdk.backends.slurm.job import data
from tao_sdk.backends.slurm.job.partitions import can_hold, possible_accounts
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.backends.slurm.request import Decisions, SlurmRequest
from tao_sdk.model.finding import Finding, error, warning
from tao_sdk.model.plan import Plan
from tao_sdk.model.prepared_job import PreparedJob

NEVER_STARTS = "SLURM would take the job and never start it."


# From the spec, while the job is planned


def spec_findings(
    job: PreparedJob,
    options: SlurmOptions,
    runtime: str,
    facts: SlurmFacts,
    mounts: Sequence[Mount],
) -> Iterator[Finding]:
    """Errors that would stop the job and warnings for its user, from the job's spec."""
    spec = job.spec
    if spec.image:
        yield from containers.runtime_findings(options, facts)
        yield from container_findings(job, mounts)
    elif runtime != NONE:
        fix = "Name one: image: ..., or use --container-runtime none."
        yield error("spec.image", f"{runtime} needs an image.", "", fix)
    if spec.shm_size:
        what = "shm_size is not used: on SLURM /dev/shm is the node's."
        yield warning("slurm.shm_unused", what, "", "Leave it out.")


def container_findings(job: PreparedJob, mounts: Sequence[Mount]) -> Iterator[Finding]:
    """Warnings for paths that lie only in the job's container and are lost with it."""
    for path in data.lost_outputs(job, mounts):
        yield warning(
            "output.lost",
            f"The output {path} lies in the container and is lost with it.",
            "Nothing of the cluster is mounted there.",
            "Leave it empty, and it is kept with the results; or name a path "
            "of the cluster that is mounted.",
        )
    yield from unmounted_finding(data.unmounted_paths(job, mounts))
    if job.spec.mount_path:
        yield from cache_finding(job.spec.mount_path, [mount.target for mount in mounts])


# From the plan, before it is sent


def plan_findings(plan: Plan[SlurmRequest], facts: SlurmFacts) -> list[Finding]:
    """Errors that would stop the job, and warnings that its user should read."""
    decisions = plan.request.decisions
    partitions = chosen_partitions(decisions, facts)
    return [
        *decisions.findings,
        *name_findings(decisions, facts),
        *account_findings(decisions, facts, partitions),
        *qos_findings(decisions, facts, partitions),
        *down_findings(decisions, facts),
    ]


def chosen_partitions(decisions: Decisions, facts: SlurmFacts) -> list[Partition]:
    """The partitions that the job asks for, as far as known; the default if it asks for none."""
    if decisions.directives.get("partition"):
        return requested_partitions(decisions, facts)
    if facts.default_partition:
        return [facts.default_partition]
    return []


def requested_partitions(decisions: Decisions, facts: SlurmFacts) -> list[Partition]:
    """The partitions in the job's directive, as far as known."""
    names = decisions.directives.get("partition", "").split(",")
    return [facts.partitions[name] for name in names if name in facts.partitions]


def name_findings(decisions: Decisions, facts: SlurmFacts) -> Iterator[Finding]:
    """Errors for an account or a qos that the user does not have."""
    account = decisions.directives.get("account", "")
    if is_strange(account, facts):
        yield error(
            "slurm.account",
            f"You cannot charge the account {account}.",
            f"Yours are: {', '.join(facts.accounts)}.",
            f"Use --account {facts.accounts[0]}.",
        )
    qos = decisions.directives.get("qos", "")
    if qos and facts.qos and qos.lower() not in facts.qos:
        yield error(
            "slurm.qos",
            f"The cluster has no qos {qos}.",
            f"It has: {', '.join(facts.qos)}.",
            "Correct --qos.",
        )


def is_strange(account: str, facts: SlurmFacts) -> bool:
    """True for an account that is not the user's. SLURM stores names in lower case."""
    if not account or not facts.accounts:
        return False
    return account.lower() not in facts.accounts


# Partitions that take the jobs of some qos only


def qos_findings(
    decisions: Decisions, facts: SlurmFacts, partitions: Sequence[Partition]
) -> Iterator[Finding]:
    qos = decisions.directives.get("qos", "")
    if not partitions or any(partition.takes_qos(qos) for partition in partitions):
        return
    rules = " ".join(map(qos_rule, partitions))
    yield error(
        "slurm.qos",
        f"Jobs of the qos {qos} may not run in {join_names(partitions)}.",
        f"{rules} {NEVER_STARTS}",
        suggest_qos(decisions, facts, qos),
    )


def suggest_qos(decisions: Decisions, facts: SlurmFacts, qos: str) -> str:
    """Advice: another qos, or a partition that takes this one."""
    others = other_partitions(decisions, facts, lambda partition: partition.takes_qos(qos))
    if not others:
        return "Use another --qos."
    return f"Use another --qos, or {others[0]}."


def qos_rule(partition: Partition) -> str:
    if partition.qos:
        return f"{partition.name} takes {', '.join(partition.qos)}."
    return f"{partition.name} takes all but {', '.join(partition.denied_qos)}."


# Partitions that take the jobs of some accounts only


def account_findings(
    decisions: Decisions, facts: SlurmFacts, partitions: Sequence[Partition]
) -> Iterator[Finding]:
    """An error if no account of the job may use its partitions, a warning if only some may."""
    named = decisions.directives.get("account", "")
    if is_strange(named, facts) or not partitions:
        return
    accounts = possible_accounts(named, facts)
    admitted = [account for account in accounts if is_admitted(account, partitions, facts)]
    if len(admitted) == len(accounts):
        return
    if admitted:
        yield account_warning(partitions, admitted)
    else:
        yield account_error(decisions, facts, partitions, accounts)


def is_admitted(account: str, partitions: Sequence[Partition], facts: SlurmFacts) -> bool:
    """True if a job of the account may start in one of the partitions."""
    return any(facts.takes_accounts(partition, [account]) for partition in partitions)


def account_warning(partitions: Sequence[Partition], admitted: Sequence[str]) -> Finding:
    where = join_names(partitions)
    return warning(
        "slurm.account",
        f"No account is named, and in {where} only jobs of {' and '.join(admitted)} may run.",
        account_rules(partitions),
        f"Use --account {admitted[0]}, unless the cluster chooses it for you.",
    )


def account_error(
    decisions: Decisions,
    facts: SlurmFacts,
    partitions: Sequence[Partition],
    accounts: Sequence[str],
) -> Finding:
    who = f"your accounts ({', '.join(accounts)})"
    if len(accounts) == 1:
        who = f"the account {accounts[0]}"
    return error(
        "slurm.account",
        f"Jobs of {who} may not run in {join_names(partitions)}.",
        account_rules(partitions),
        suggest_way(decisions, facts, partitions, accounts),
    )


def account_rules(partitions: Sequence[Partition]) -> str:
    """The accounts that each partition takes, and what SLURM does with other jobs."""
    rules = [account_rule(partition) for partition in partitions]
    return f"{' '.join(filter(None, rules))} {NEVER_STARTS}"


def account_rule(partition: Partition) -> str:
    if partition.accounts:
        return f"{partition.name} takes {', '.join(partition.accounts)}."
    if partition.denied:
        return f"{partition.name} takes all but {', '.join(partition.denied)}."
    return ""


def suggest_way(
    decisions: Decisions,
    facts: SlurmFacts,
    partitions: Sequence[Partition],
    accounts: Sequence[str],
) -> str:
    """Advice: an account or a partition with which the job would start."""
    yours = facts.accounts
    admitted = [account for account in yours if is_admitted(account, partitions, facts)]
    ways = [f"--account {account}" for account in admitted]
    ways += other_partitions(decisions, facts, lambda other: facts.takes_accounts(other, accounts))
    if not ways:
        return "Ask the site for an account that it takes."
    return f"Use {' or '.join(ways[:3])}, or ask the site for an account that it takes."


def other_partitions(
    decisions: Decisions, facts: SlurmFacts, takes: Callable[[Partition], bool]
) -> list[str]:
    """`--partition NAME` for each partition that takes the job and could run it."""
    return [
        f"--partition {partition.name}"
        for partition in facts.partitions.values()
        if takes(partition) and can_run(partition, decisions)
    ]


def can_run(partition: Partition, decisions: Decisions) -> bool:
    return partition.up and can_hold(partition, decisions.nodes, decisions.gpus)


def join_names(partitions: Sequence[Partition]) -> str:
    return ", ".join(partition.name for partition in partitions)


def down_findings(decisions: Decisions, facts: SlurmFacts) -> Iterator[Finding]:
    """A warning for partitions that the job names and that start no jobs now."""
    requested = requested_partitions(decisions, facts)
    down = [partition for partition in requested if not partition.up]
    if down:
        yield warning(
            "slurm.partition_down",
            f"The partition {join_names(down)} starts no jobs now.",
            "Its state is not UP.",
            "Wait, or choose another with --partition.",
        )
