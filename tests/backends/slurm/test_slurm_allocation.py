"""Nodes, GPUs, CPUs, partitions and time of a job, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from support.cluster.facts_here import (
    BASE,
    directives,
    facts,
    job,
    partition,
    planned,
    staged,
)
from tao_sdk.backends.slurm.cluster import survey
from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.job.allocation import PartitionLimit
from tao_sdk.model.errors import SpecError

# Nodes and GPUs


@pytest.mark.parametrize(
    ("count", "nodes", "shape"),
    [(1, None, (1, 1)), (8, None, (1, 8)), (12, None, (2, 6)), (16, None, (2, 8)), (18, None, (3, 6)), (0, None, (1, 0)),
     (-1, None, (1, 8)), (8, 2, (2, 8)), (12, 3, None), (4, 3, (3, 4)), (32, None, (4, 8)), (0, 2, (2, 0)), (-1, 2, (2, 8))],
)  # fmt: skip
def test_gpus_are_spread_evenly_over_the_fewest_nodes_and_with_num_nodes_they_are_per_node(
    count: int, nodes: int | None, shape: tuple[int, int] | None
) -> None:
    spec = job(gpu_count=count, num_nodes=nodes)
    if shape is None:
        with pytest.raises(SpecError, match="gpu_count is 12, which is per node"):
            planned(spec)
        return
    told = directives(planned(spec))
    assert (int(told["nodes"]), told.get("gres", "gpu:0")) == (shape[0], f"gpu:{shape[1]}")


def test_gpus_that_do_not_divide_are_refused_with_their_neighbours() -> None:
    with pytest.raises(
        SpecError, match="17 GPUs do not spread evenly over 3 nodes of 8"
    ) as refused:
        planned(job(gpu_count=17))
    assert "16 (2 x 8) or 18 (3 x 6)" in refused.value.next


def test_whole_nodes_are_asked_for_when_all_their_gpus_are_and_not_otherwise() -> None:
    assert "exclusive" in directives(planned(job(gpu_count=8)))
    assert "exclusive" not in directives(planned(job(gpu_count=4)))
    assert "exclusive" in directives(planned(job(gpu_count=4), exclusive=True))


def test_a_job_without_gpus_asks_for_none_and_sees_none() -> None:
    plan = planned(job(gpu_count=0))
    assert "gres" not in directives(plan)
    assert "tao_gpus=0\n" in staged(plan, "task.sh")


def test_cpus_are_16_for_each_gpu_and_never_more_than_a_node_has() -> None:
    assert directives(planned(job(gpu_count=2)))["cpus-per-task"] == "32"
    small = facts(partitions={"polar": partition("polar", cpus=20)})
    assert directives(planned(job(gpu_count=2), small))["cpus-per-task"] == "20"
    assert directives(planned(job(gpu_count=2, cpus=5.5)))["cpus-per-task"] == "6"


MIXED = facts(
    partitions={
        "small": partition("small", cpus=2, default=True),
        "large": partition("large", cpus=64),
        "bare": partition("bare", cpus=256, gpus=0),
    }
)


def test_more_cpus_than_a_node_has_are_refused_where_slurm_would_wait_for_ever() -> None:
    with pytest.raises(SpecError, match=r"cpus is 64, which is per node") as refused:
        planned(job(gpu_count=1, cpus=64), MIXED, partition="small")
    assert "The largest node of small has 2 CPUs." in refused.value.why
    assert refused.value.next == (
        "Ask for 2 or fewer, or use --partition large, whose nodes have 64."
    )
    with pytest.raises(SpecError) as hopeless:
        planned(job(gpu_count=1, cpus=65), MIXED, partition="small,large")
    assert hopeless.value.next == "Ask for 64 or fewer."


def test_partitions_with_too_few_cpus_are_left_out_of_the_list_and_told() -> None:
    plan = planned(job(gpu_count=1, cpus=2.5), MIXED, partition="small,large")
    assert directives(plan)["partition"] == "large"
    assert directives(plan)["cpus-per-task"] == "3"
    assert plan.notes == ("Not asked for, because of 3 CPUs per node: small.",)


def test_cpus_of_nodes_that_are_not_known_refuse_nothing() -> None:
    unknown = facts(partitions={"polar": partition("polar", cpus=0)})
    assert directives(planned(job(cpus=500), unknown))["cpus-per-task"] == "500"


def test_the_cpus_that_a_partition_gives_of_a_node_are_those_that_a_job_may_have() -> None:
    shown = (
        "PartitionName=gpu MaxCPUsPerNode=8 MaxNodes=UNLIMITED State=UP\n"
        "PartitionName=all MaxCPUsPerNode=UNLIMITED MaxNodes=UNLIMITED State=UP\n"
    )
    nodes = "gpu|2|128|gpu:8\nall|2|128|gpu:8\nall|1|64|(null)\n"
    seen = survey.read_partitions(shown, nodes)
    assert {name: each.cpus for name, each in seen.items()} == {"gpu": 8, "all": 128}


# Partitions and time


def test_the_documented_partitions_are_used_where_the_cluster_has_them() -> None:
    assert directives(planned(job()))["partition"] == "polar,polar3,polar4,grizzly"
    other = facts(partitions={"main": partition("main", default=True)})
    plan = planned(job(), other)
    assert "partition" not in directives(plan)
    assert "none of the documented ones" in plan.notes[0]


def test_cluster_default_partition_leaves_the_directive_out() -> None:
    assert "partition" not in directives(planned(job(), partition="cluster default partition"))


def test_one_wrong_name_in_a_list_is_named_with_those_that_there_are() -> None:
    with pytest.raises(SpecError, match="no partition 'polr'") as refused:
        planned(job(), partition="polar,polr")
    assert "grizzly" in refused.value.next


def test_partitions_that_can_never_hold_the_job_are_left_out_of_the_list_and_told() -> None:
    plan = planned(job(gpu_count=8, num_nodes=4))
    assert directives(plan)["partition"] == "polar4,grizzly"
    assert "polar, polar3" in plan.notes[0]


def test_more_nodes_than_a_partition_allows_are_refused_where_slurm_would_wait_for_ever() -> None:
    with pytest.raises(
        PartitionLimit, match=r"3 nodes are more than a job may have in polar \(2\)"
    ):
        planned(job(gpu_count=1, num_nodes=3), partition="polar")
    with pytest.raises(PartitionLimit, match=r"--nodes 2 --gpus 8 \(16 GPUs in all\)"):
        planned(job(gpu_count=64), partition="polar")
    with pytest.raises(PartitionLimit, match=r"in cpu \(1\)"):
        planned(job(gpu_count=0, num_nodes=2), partition="cpu")


def test_more_gpus_than_a_node_has_are_refused() -> None:
    with pytest.raises(SpecError, match="No node of these partitions has one"):
        planned(job(gpu_count=1), partition="cpu")


def test_a_longer_time_than_the_partition_allows_is_refused_with_one_that_does() -> None:
    with pytest.raises(PartitionLimit, match=r"12h is longer than polar allows \(4h\)") as refused:
        planned(job(time_limit=timedelta(hours=12)), partition="polar")
    assert "--partition long" in refused.value.next
    assert (
        directives(planned(job(time_limit=timedelta(hours=12)), partition="polar,long"))[
            "partition"
        ]
        == "long"
    )


def test_only_the_default_of_4_hours_is_shortened_and_says_so() -> None:
    plan = planned(job(gpu_count=0), partition="tiny")
    assert directives(plan)["time"] == "00:01:00"
    assert "the default is 4h" in plan.notes[0]
    with pytest.raises(PartitionLimit):
        planned(job(gpu_count=0), facts(Site(BASE, time=timedelta(hours=2))), partition="tiny")


def test_a_qos_limits_the_time_as_a_partition_does() -> None:
    assert directives(planned(job(), qos="short"))["time"] == "00:10:00"
    with pytest.raises(PartitionLimit, match="with qos short") as refused:
        planned(job(time_limit=timedelta(hours=1)), qos="short")
    assert "--partition" not in refused.value.next, "no partition allows it"


MINUTES = {"longest_times": {"mine": timedelta(minutes=20)}}


def test_an_account_limits_the_time_unless_a_qos_says_otherwise() -> None:
    seen = facts(**MINUTES)
    assert directives(planned(job(), seen))["time"] == "00:20:00"
    with pytest.raises(
        PartitionLimit, match=r"1h is longer than polar with account mine allows \(20m\)"
    ) as refused:
        planned(job(time_limit=timedelta(hours=1)), seen, partition="polar")
    assert "--partition" not in refused.value.next, "no partition allows it"
    long = facts(**MINUTES, qos={"normal": None, "long": timedelta(hours=8)})
    assert directives(planned(job(), long, qos="long"))["time"] == "04:00:00"
    by_default = replace(long, default_qos={"mine": "long"})
    assert directives(planned(job(), by_default))["time"] == "04:00:00"


@pytest.mark.parametrize(
    "more",
    [{"accounts": ("mine", "other")},
     {"partitions": {"polar": partition("polar", default=True, own_qos="priority")}}],
)  # fmt: skip
def test_an_accounts_limit_shortens_nothing_where_another_may_count(more: dict[str, Any]) -> None:
    assert (
        directives(planned(job(), facts(**{**MINUTES, **more}), partition="polar"))["time"]
        == "04:00:00"
    )


def test_an_account_has_the_longest_of_its_limits_and_none_where_one_of_them_is_missing() -> None:
    text = "a||normal|00:20:00|\na|polar|normal|01:00:00|\nb||normal|00:10:00|high\nb|polar|normal||\nold||normal\n"
    assert survey.read_wall_limits(text) == {"a": timedelta(hours=1)}
    assert survey.read_default_qos(text) == {"b": "high"}
    assert [
        survey.heeds_limits({"AccountingStorageEnforce": each})
        for each in ("none", "associations,safe")
    ] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("limit", "slurm", "command"),
    [(timedelta(hours=4), "04:00:00", "13680"), (timedelta(seconds=1), "00:01:00", "1"),
     (timedelta(minutes=90), "01:30:00", "5130"),
     (timedelta(seconds=90), "00:02:00", "90")],
)  # fmt: skip
def test_the_command_is_asked_to_end_somewhat_before_slurm_ends_it(
    limit: timedelta, slurm: str, command: str
) -> None:
    plan = planned(job(time_limit=limit))
    assert directives(plan)["time"] == slurm
    assert f"tao_seconds={command}\n" in staged(plan, "task.sh")


def test_days_are_written_as_slurm_has_them() -> None:
    assert (
        directives(planned(job(time_limit=timedelta(days=1, hours=3)), partition="long"))["time"]
        == "1-03:00:00"
    )


def test_a_partition_without_a_limit_takes_any_time() -> None:
    assert (
        directives(planned(job(time_limit=timedelta(days=30)), partition="endless"))["time"]
        == "30-00:00:00"
    )
