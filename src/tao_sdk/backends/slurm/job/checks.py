"""Checks: what would stop a planned job on this cluster, and what its user should know. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tao_sdk.backends.mounts import Mount, cache_finding, unmounted_finding
from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.images import containers
from tao_sdk.backends.slurm.images.containers import NONE
from tao_sdk.backends.slurm.job import data
from tao_sdk.backends.slurm.job.shape import accounts, fits
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.backends.slurm.request import Decisions, SlurmRequest
from tao_sdk.model.finding import Finding, error, warning
from tao_sdk.model.plan import Plan
from tao_sdk.model.prepared_job import PreparedJob


def findings(
    job: PreparedJob,
    options: SlurmOptions,
    runtime: str,
    facts: SlurmFacts,
    mounts: Sequence[Mount],
) -> Iterator[Finding]:
    """What would stop the job (errors), and what it should know (warnings), by what it asks for."""
    spec = job.spec
    if spec.image:
        yield from containers.check(options, facts)
    elif runtime != NONE:
        fix = "Name one: image: ..., or use --container-runtime none."
        yield error("spec.image", f"{runtime} needs an image.", "", fix)
    for path in data.lost_outputs(job, mounts) if spec.image else []:
        what = f"The output {path} lies in the container and is lost with it."
        fix = (
            "Leave it empty, and it is kept with the results; or name a path "
            "of the cluster that is mounted."
        )
        yield warning("output.lost", what, "Nothing of the cluster is mounted there.", fix)
    if spec.image:
        yield from unmounted_finding(data.unmounted(job, mounts))
    if spec.mount_path and spec.image:
        yield from cache_finding(spec.mount_path, [each.target for each in mounts])
    if spec.shm_size:
        yield warning(
            "slurm.shm_unused",
            "shm_size is not used: on SLURM /dev/shm is the node's.",
            "",
            "Leave it out.",
        )


def check(plan: Plan[SlurmRequest], facts: SlurmFacts) -> list[Finding]:
    decisions = plan.request.decisions
    return [
        *decisions.findings,
        *account_findings(decisions, facts),
        *shut_findings(decisions, facts),
        *qos_findings(decisions, facts),
        *down_findings(decisions, facts),
    ]


def account_findings(decisions: Decisions, facts: SlurmFacts) -> Iterator[Finding]:
    account, qos = decisions.directives.get("account", ""), decisions.directives.get("qos", "")
    if is_strange(account, facts):
        fix = f"Use --account {facts.accounts[0]}."
        known = ", ".join(facts.accounts)
        yield error(
            "slurm.account",
            f"You cannot charge the account {account}.",
            f"Yours are: {known}.",
            fix,
        )
    if qos and facts.qos and qos.lower() not in facts.qos:
        yield error(
            "slurm.qos",
            f"The cluster has no qos {qos}.",
            f"It has: {', '.join(facts.qos)}.",
            "Correct --qos.",
        )


def qos_findings(decisions: Decisions, facts: SlurmFacts) -> Iterator[Finding]:
    """Partitions take the jobs of some qos only, too."""
    qos, asked = decisions.directives.get("qos", ""), chosen(decisions, facts)
    if not asked or any(each.takes_qos(qos) for each in asked):
        return
    takes = (
        f"{each.name} takes {', '.join(each.qos) or 'all but ' + ', '.join(each.denied_qos)}."
        for each in asked
    )
    others = elsewhere(decisions, facts, lambda each: each.takes_qos(qos))
    fix = f"Use another --qos{f', or {others[0]}' if others else ''}."
    why = f"{' '.join(takes)} SLURM would take the job and never start it."
    yield error(
        "slurm.qos",
        f"Jobs of the qos {qos} may not run in {', '.join(each.name for each in asked)}.",
        why,
        fix,
    )


def is_strange(account: str, facts: SlurmFacts) -> bool:
    return (
        bool(account and facts.accounts) and account.lower() not in facts.accounts
    )  # SLURM's are in lower case


def shut_findings(decisions: Decisions, facts: SlurmFacts) -> Iterator[Finding]:
    """Partitions take the jobs of some accounts only: SLURM would take another's job and never
    start it.
    """
    named, asked = decisions.directives.get("account", ""), chosen(decisions, facts)
    own = accounts(named, facts)
    if is_strange(named, facts) or not asked or not own:
        return
    taken = [account for account in own if any(facts.takes(each, [account]) for each in asked)]
    where = ", ".join(each.name for each in asked)
    takes = (
        f"{' '.join(who_may(each) for each in asked if who_may(each))} SLURM would take the job "
        "and never start it."
    )
    if not taken:
        who = f"the account {own[0]}" if len(own) == 1 else f"your accounts ({', '.join(own)})"
        fix = way_in(decisions, asked, own, facts)
        yield error("slurm.account", f"Jobs of {who} may not run in {where}.", takes, fix)
    elif len(taken) < len(own):
        what = f"No account is named, and in {where} only jobs of {' and '.join(taken)} may run."
        yield warning(
            "slurm.account",
            what,
            takes,
            f"Use --account {taken[0]}, unless the cluster chooses it for you.",
        )


def chosen(decisions: Decisions, facts: SlurmFacts) -> list[Partition]:
    """The partitions that SLURM is asked for, as far as they are known; without a directive its
    default.
    """
    asked: str = decisions.directives.get("partition", "")
    default = facts.default_partition
    if not asked:
        return [default] if default else []
    return [facts.partitions[name] for name in asked.split(",") if name in facts.partitions]


def who_may(partition: Partition) -> str:
    if not partition.accounts:
        return (
            f"{partition.name} takes all but {', '.join(partition.denied)}."
            if partition.denied
            else ""
        )
    return f"{partition.name} takes {', '.join(partition.accounts)}."


def way_in(
    decisions: Decisions, asked: Sequence[Partition], own: Sequence[str], facts: SlurmFacts
) -> str:
    """An account or a partition with which the job would start."""
    ways = [
        f"--account {each}"
        for each in facts.accounts
        if any(facts.takes(there, [each]) for there in asked)
    ]
    ways += elsewhere(decisions, facts, lambda each: facts.takes(each, own))
    ask = "ask the site for an account that it takes"
    return f"Use {' or '.join(ways[:3])}, or {ask}." if ways else f"{ask.capitalize()}."


def elsewhere(
    decisions: Decisions, facts: SlurmFacts, takes: Callable[[Partition], bool]
) -> list[str]:
    """The partitions that could run the job, of those that take it."""
    nodes, gpus = decisions.nodes, decisions.gpus
    open_ones = (
        each
        for each in facts.partitions.values()
        if each.up and takes(each) and fits(each, nodes, gpus)
    )
    return [f"--partition {each.name}" for each in open_ones]


def down_findings(decisions: Decisions, facts: SlurmFacts) -> Iterator[Finding]:
    names: Sequence[str] = decisions.directives.get("partition", "").split(",")
    down = [name for name in names if name in facts.partitions and not facts.partitions[name].up]
    if down:
        what = f"The partition {', '.join(down)} starts no jobs now."
        yield warning(
            "slurm.partition_down",
            what,
            "Its state is not UP.",
            "Wait, or choose another with --partition.",
        )
