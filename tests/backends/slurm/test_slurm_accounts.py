"""Partitions that take some accounts only, and accounts with limits: refused before SLURM has the
job, else explained.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from support.cluster.cluster_here import Cluster, until
from tao_sdk.backends.slurm.cluster import site, survey
from tao_sdk.backends.slurm.facts import SlurmFacts
from tao_sdk.backends.slurm.job.allocation import PartitionLimit
from tao_sdk.client import Client
from tao_sdk.model.errors import Refused
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.transports.ssh import Ssh

ALL = "AllowAccounts=ALL"


@contextmanager
def partition(
    cluster: Cluster, whom: str, after: str = ALL, name: str = "polar4"
) -> Iterator[None]:
    """It takes the jobs of some for a while."""
    changed = cluster.ask("scontrol", "update", f"partitionname={name}", whom)
    assert changed.returncode == 0, changed.stderr
    try:
        yield
    finally:
        cluster.ask("scontrol", "update", f"partitionname={name}", after)


@contextmanager
def accounts(cluster: Cluster) -> Iterator[None]:
    """taouser is in the account team, too, which is below dept."""
    adds = "add account dept", "add account team parent=dept", "add user taouser account=team"
    ends = "delete user taouser account=team", "delete account team", "delete account dept"
    try:
        for each in adds:
            assert cluster.ask("sacctmgr", "-i", *each.split()).returncode == 0
        yield
    finally:
        for each in ends:
            assert cluster.ask("sacctmgr", "-i", *each.split()).returncode == 0


def submit(client: Client, partition: str, command: str = "true", **more: object) -> Job:
    spec = JobSpec(command=command, name="account", gpu_count=0, cpus=1)
    return client.submit(spec, "slurm", {"partition": partition, **more}).job


def forget(client: Client) -> None:
    """What is known of the cluster: the next job looks at it anew."""
    for kept in (client.settings.state_dir / "slurm").glob("*.facts.json"):
        kept.unlink()


def seen(surroundings: dict[str, str]) -> SlurmFacts:
    settings = Settings(surroundings)
    kept = survey.Surveys(
        settings.state_dir / "none", lambda script: Ssh(site.read_login(settings)).run(script).text
    )
    return kept.current_facts(site.read_site(settings), "here", fresh=True)


@pytest.mark.parametrize(
    ("whom", "after", "who"),
    [("AllowAccounts=nobodys", ALL, "polar4 takes nobodys."),
     ("DenyAccounts=taoacct", "DenyAccounts=", "polar4 takes all but taoacct.")],
)  # fmt: skip
def test_a_job_that_slurm_would_let_wait_for_ever_for_its_account_is_refused(
    cluster: Cluster, client: Client, whom: str, after: str, who: str
) -> None:
    with partition(cluster, whom, after):
        forget(client)
        taken = cluster.login("sbatch --parsable --partition=polar4 --wrap true").stdout.strip()
        until(
            lambda: (
                "account not permitted"
                in cluster.ask("squeue", "-h", "-j", taken, "-o", "%r").stdout
            )
        )
        cluster.ask("scancel", taken)
        with pytest.raises(
            Refused, match="Jobs of the account taoacct may not run in polar4"
        ) as told:
            submit(client, "polar4")
        assert who in told.value.why
        assert "--partition polar" in told.value.next
        made = submit(client, "polar4,grizzly")
        assert client.wait(made.id, timeout=300).status is Status.COMPLETE
        assert made.backend_details["partition"] == "grizzly"


def test_a_job_that_slurm_would_let_wait_for_ever_for_its_qos_is_refused(
    cluster: Cluster, client: Client
) -> None:
    for whom, after in (("AllowQos=normal", "AllowQos=ALL"), ("DenyQos=short", "DenyQos=")):
        with partition(cluster, whom, after):
            forget(client)
            with pytest.raises(Refused, match="Jobs of the qos short may not run in polar4"):
                submit(client, "polar4", qos="short")
    forget(client)
    made = submit(client, "polar4", qos="short")
    assert client.wait(made.id, timeout=300).status is Status.COMPLETE


def test_a_job_that_slurm_would_let_wait_for_ever_for_the_time_of_its_account_is_refused(
    cluster: Cluster, client: Client, surroundings: dict[str, str]
) -> None:
    try:
        assert (
            cluster.ask(
                "sacctmgr", "-i", "modify", "account", "taoacct", "set", "maxwall=20"
            ).returncode
            == 0
        )
        taken = cluster.login(
            "sbatch --parsable --time=60 --account=taoacct --wrap true"
        ).stdout.strip()
        until(lambda: "WallDuration" in cluster.ask("squeue", "-h", "-j", taken, "-o", "%r").stdout)
        assert seen(surroundings).longest_times == {"taoacct": timedelta(minutes=20)}
        forget(client)
        with pytest.raises(
            PartitionLimit, match=r"1h is longer than polar with account taoacct allows \(20m\)"
        ):
            client.submit(
                JobSpec(command="true", gpu_count=0, time_limit=timedelta(hours=1)), "slurm"
            )
        made = client.submit(JobSpec(command="true", gpu_count=0, cpus=1), "slurm").job
        assert client.wait(made.id, timeout=300).status is Status.COMPLETE
    finally:
        cluster.ask("sacctmgr", "-i", "modify", "account", "taoacct", "set", "maxwall=-1")


def test_a_job_that_waits_for_ever_for_its_account_says_so(
    cluster: Cluster, client: Client
) -> None:
    with partition(cluster, "AllowAccounts=nobodys"):  # which is not known of the cluster yet
        made = submit(client, "polar4")
        until(lambda: "account not permitted" in client.get_job(made.id).message)
        found = client.diagnose(made.id)
        assert found is not None
        assert found.rule == "slurm.never_starts"
        assert "polar4 allows nobodys not taoacct" in found.cause
        assert "--account" in found.suggestion
        assert client.cancel_job(made.id)


def test_the_accounts_above_the_users_are_asked_for_where_a_partition_takes_but_some(
    cluster: Cluster, surroundings: dict[str, str]
) -> None:
    assert seen(surroundings).parent_accounts == {}
    with partition(cluster, "AllowAccounts=dept"), accounts(cluster):
        facts = seen(surroundings)
        assert facts.parent_accounts["team"] == {"dept", "root"}
        assert facts.parent_accounts["taoacct"] == {"root"}
        assert facts.takes_accounts(facts.partitions["polar4"], ["team"])
        assert not facts.takes_accounts(facts.partitions["polar4"], ["taoacct"])
