"""What is told of a planned job before it is handed over: accounts, partitions, images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.cluster.facts_here import (
    BASE,
    IMAGE,
    directives,
    facts,
    findings,
    job,
    partition,
    planned,
    staged,
)
from tao_sdk.backends.slurm.cluster import doctor, survey
from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.facts import SlurmFacts
from tao_sdk.backends.slurm.job import checks
from tao_sdk.backends.slurm.request import SlurmRequest
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.plan import Plan


def test_a_cluster_without_anything_that_runs_images_is_a_finding_before_submit() -> None:
    bare = facts(pyxis=False)
    assert findings(planned(job(image=IMAGE), bare), bare)["slurm.no_pyxis"] is Severity.ERROR
    assert "slurm.no_pyxis" not in findings(
        planned(job(image=IMAGE), bare, container_runtime="none"), bare
    )


def test_an_account_or_qos_that_you_do_not_have_is_a_finding_before_submit() -> None:
    assert findings(planned(job(), account="theirs"))["slurm.account"] is Severity.ERROR
    assert findings(planned(job(), facts(accounts=()), account="theirs"), facts(accounts=())) == {}
    assert findings(planned(job(), qos="gold"))["slurm.qos"] is Severity.ERROR


def told(plan: Plan[SlurmRequest], seen: Any) -> Finding:
    (found,) = (each for each in checks.plan_findings(plan, seen) if each.code == "slurm.account")
    return found


def closed(**who: Any) -> SlurmFacts:
    """`polar` takes the jobs of some accounts only, `open` all."""
    return facts(
        partitions={
            each.name: each for each in (partition("polar", default=True, **who), partition("open"))
        }
    )


@pytest.mark.parametrize(
    "options", [{"partition": "polar"}, {"partition": "polar", "account": "mine"}, {}]
)
def test_a_partition_that_takes_other_accounts_only_is_an_error_where_slurm_would_wait_for_ever(
    options: dict[str, str],
) -> None:
    seen = closed(accounts=("theirs", "others"))
    found = told(planned(job(), seen, **options), seen)
    assert (found.severity, found.what) == (
        Severity.ERROR,
        "Jobs of the account mine may not run in polar.",
    )
    assert (
        found.evidence == "polar takes theirs, others. SLURM would take the job and never start it."
    )
    assert found.fix == "Use --partition open, or ask the site for an account that it takes."


def test_the_clusters_default_partition_is_looked_at_too() -> None:
    seen = facts(partitions={"main": partition("main", default=True, accounts=("theirs",))})
    assert told(planned(job(), seen), seen).what == "Jobs of the account mine may not run in main."
    assert told(planned(job(), seen), seen).fix == "Ask the site for an account that it takes."


def test_a_partition_that_denies_an_account_is_an_error_for_that_one_only() -> None:
    seen = closed(denied=("mine",))
    assert (
        "polar takes all but mine" in told(planned(job(), seen, partition="polar"), seen).evidence
    )
    assert (
        findings(
            planned(job(), closed(denied=("theirs",)), partition="polar"),
            closed(denied=("theirs",)),
        )
        == {}
    )


@pytest.mark.parametrize("account", ["mine", "Mine", ""])
@pytest.mark.parametrize("allowed", ["mine", "dept"])
def test_a_partition_that_takes_the_account_or_one_above_it_is_none(
    account: str, allowed: str
) -> None:
    seen = closed(accounts=("theirs", allowed))
    assert findings(planned(job(), seen, partition="polar", account=account), seen) == {}


def test_where_it_is_not_seen_what_is_above_an_account_no_partition_is_closed_to_it() -> None:
    seen = replace(closed(accounts=("theirs",)), parent_accounts={})
    assert findings(planned(job(), seen, partition="polar"), seen) == {}
    without = replace(seen, accounting=False, accounts=())
    assert findings(planned(job(), without, partition="polar"), without) == {}
    assert (
        told(planned(job(), without, partition="polar", account="mine"), without).severity
        is Severity.ERROR
    )


def test_without_a_named_account_only_what_none_of_yours_may_use_is_an_error() -> None:
    above = dict.fromkeys(("mine", "second", "third"), frozenset({"root"}))
    seen = replace(closed(accounts=("second",)), accounts=("mine", "second"), parent_accounts=above)
    unnamed = told(planned(job(), seen, partition="polar"), seen)
    assert (unnamed.severity, unnamed.fix) == (
        Severity.WARNING,
        "Use --account second, unless the cluster chooses it for you.",
    )
    assert findings(planned(job(), seen, partition="polar", account="second"), seen) == {}
    named = told(planned(job(), seen, partition="polar", account="mine"), seen)
    assert named.severity is Severity.ERROR
    assert named.fix.startswith("Use --account second or --partition open")
    neither = replace(seen, accounts=("mine", "third"))
    assert (
        "your accounts (mine, third)"
        in told(planned(job(), neither, partition="polar"), neither).what
    )


def test_a_partition_that_takes_no_jobs_of_the_account_is_left_out_of_a_list_and_told() -> None:
    seen = closed(accounts=("theirs",))
    plan = planned(job(), seen, partition="polar,open")
    assert directives(plan)["partition"] == "open"
    assert plan.notes == (
        "Not asked for, because of the account mine, of which they take no jobs: polar.",
    )
    assert findings(plan, seen) == {}


def test_a_partition_that_takes_no_jobs_of_the_qos_is_refused_and_left_out_of_a_list() -> None:
    for who in ({"qos": ("normal",)}, {"denied_qos": ("short",)}):
        seen = closed(**who)
        (found,) = checks.plan_findings(planned(job(), seen, partition="polar", qos="Short"), seen)
        assert (found.severity, found.code) == (Severity.ERROR, "slurm.qos")
        assert found.what == "Jobs of the qos Short may not run in polar."
        assert "--partition open" in found.fix
        both = planned(job(), seen, partition="polar,open", qos="short")
        assert directives(both)["partition"] == "open"
        assert "the qos short, of which they take no jobs: polar" in " ".join(both.notes)
        assert (
            checks.plan_findings(planned(job(), seen, partition="polar", qos="normal"), seen) == []
        )


def test_a_partition_named_in_native_is_looked_at_too() -> None:
    seen = closed(accounts=("theirs",))
    plan = planned(replace(job(), native={"partition": "polar"}), seen, partition="open")
    assert told(plan, seen).severity is Severity.ERROR


def test_an_image_is_converted_where_the_account_may_run_jobs() -> None:
    def where(**who: Any) -> str:
        seen = facts(
            partitions={each.name: each for each in (partition("polar"), partition("cpu", **who))}
        )
        return next(
            line
            for line in staged(planned(job(image=IMAGE), seen), "image.sbatch").splitlines()
            if "mem=" in line or "partition" in line
        )

    assert where() == "#SBATCH --partition=cpu"
    assert "partition" not in where(accounts=("theirs",))


def test_an_image_is_not_converted_in_a_named_partition_where_that_would_wait_for_ever() -> None:
    named = Site(BASE, conversion_partition="convert")
    for who in ({"denied": ("mine",)}, {"accounts": ("theirs",)}):
        seen = facts(
            named,
            partitions={
                each.name: each for each in (partition("cpu"), partition("convert", **who))
            },
        )
        plan = planned(job(image=IMAGE), seen, partition="cpu", account="mine")
        assert "#SBATCH --partition=cpu\n" in staged(plan, "image.sbatch")
        assert "not converted in convert" in " ".join(plan.notes)


def test_the_doctor_tells_of_a_partition_where_jobs_of_the_account_would_never_start() -> None:
    seen = replace(
        closed(accounts=("theirs",)), site=Site(BASE, partition="polar,open", account="mine")
    )
    polar, other = doctor.partition_findings(seen)
    assert (polar.severity, other.severity) == (Severity.WARNING, Severity.OK)
    assert "may not be of mine: they would never start" in polar.evidence


def test_what_a_partition_allows_and_the_tree_of_accounts_are_read_as_slurm_shows_them() -> None:
    shown = (
        "PartitionName=all AllowGroups=ALL AllowAccounts=ALL MaxNodes=2\n"
        "PartitionName=some AllowGroups=ALL AllowAccounts=a,b MaxNodes=2\n"
        "PartitionName=less AllowGroups=ALL DenyAccounts=c MaxNodes=2\n"
    )
    read = {
        name: (each.accounts, each.denied)
        for name, each in survey.read_partitions(shown, "").items()
    }
    assert read == {"all": ((), ()), "some": (("a", "b"), ()), "less": ((), ("c",))}
    assert survey.read_ancestors("team|dept\nmine|root\ndept|root\n") == {
        "team": frozenset({"dept", "root"}), "dept": frozenset({"root"}),
        "mine": frozenset({"root"}),
    }  # fmt: skip
    assert survey.read_ancestors("\n") == {}


def test_an_account_and_a_qos_in_capitals_are_slurms_in_lower_case() -> None:
    plan = planned(job(), account="Mine", qos="SHORT")
    assert findings(plan) == {}
    assert directives(plan)["time"] == "00:10:00"
    shown = doctor.account_findings(facts(Site(BASE, account="Mine")))
    assert [each.severity for each in shown] == [Severity.OK]


def test_a_partition_that_is_down_is_a_warning() -> None:
    down = facts(partitions={"polar": partition("polar", up=False)})
    assert findings(planned(job(), down), down)["slurm.partition_down"] is Severity.WARNING
