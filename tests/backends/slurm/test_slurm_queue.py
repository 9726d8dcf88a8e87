"""What is ahead of a job that waits in the queue, from squeue's and sinfo's lines."""

from __future__ import annotations

from tao_sdk.backends.slurm.cluster.queue import NONE_AHEAD, waiting_events

# id|state|mine|partitions|reason, by priority
QUEUE = """\
12|PENDING||polar|Resources
13|PENDING||cpu|Resources
14|PENDING|mine|polar,grizzly|Priority
15|PENDING||polar|JobHeldUser
16|PENDING||polar|Dependency
6|RUNNING|mine|polar|None
17|PENDING|mine|polar,polar3|Priority
18|PENDING||polar|Priority
"""


def told(reason: str, job_id: str = "17", queue: str = QUEUE, idle: str = "") -> list[str]:
    return [event.message for event in waiting_events(reason, job_id, queue, idle)]


def test_the_jobs_ahead_are_those_that_wait_for_nodes_of_the_same_partitions() -> None:
    [ahead] = told("Priority")
    assert ahead == "2 jobs are ahead of it in polar, polar3: 12, 14, of which yours: 14"


def test_one_job_of_another_user_ahead_is_told_as_one() -> None:
    assert told("Priority", "14") == ["1 job is ahead of it in grizzly, polar: 12"]


def test_running_jobs_are_not_named_as_what_priority_waits_for() -> None:
    assert not any("running" in message for message in told("Priority"))


def test_where_squeue_shows_no_job_ahead_the_own_running_jobs_are_told() -> None:
    queue = "6|RUNNING|mine|polar|None\n17|PENDING|mine|polar|Priority\n"
    assert told("Priority", queue=queue) == [NONE_AHEAD, "Your running jobs: 6"]


def test_a_job_that_the_queue_no_longer_shows_has_nothing_ahead() -> None:
    assert told("Priority", "99") == []


def test_a_long_queue_is_counted_and_its_first_jobs_are_named() -> None:
    queue = "".join(f"{number}|PENDING||polar|Priority\n" for number in range(1, 21))
    [ahead] = told("Priority", "20", queue)
    assert ahead == "19 jobs are ahead of it in polar: 1, 2, 3, 4, 5, 6, 7, 8 and more"


def test_a_job_that_waits_for_nodes_or_for_a_limit_is_told_which_own_jobs_run() -> None:
    for reason in ("Resources", "QOSMaxGRESPerUser", "AssocGrpCpuLimit"):
        assert told(reason) == ["Your running jobs: 6"]
    assert told("BeginTime") == []


def test_idle_nodes_are_told_by_partition() -> None:
    assert told("Priority", "99", idle="grizzly 4\ncpu 1\n") == [
        "Idle nodes: 4 in grizzly, 1 in cpu"
    ]


def test_lines_that_are_cut_short_are_left_out() -> None:
    assert told("Priority", queue="12|PENDING\n17|PENDING|mine|polar|Priority\nnoise\n") == [
        NONE_AHEAD
    ]
