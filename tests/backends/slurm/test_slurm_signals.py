"""How SIGTERM reaches a job's processes on a real cluster: each once, whoever ends the job."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import pytest

from support.cluster.cluster_here import Cluster, until
from support.signal_programs import COUNTS_SIGNALS
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

PYTHON = f"python3 -c {shlex.quote(COUNTS_SIGNALS)}"


def start(client: Client, command: str, **more: Any) -> Job:
    spec = JobSpec(command=command, **{"name": "told", "gpu_count": 0, "cpus": 1, **more})
    job = client.submit(spec, "slurm", {"partition": "grizzly"}).job
    ranks = range(spec.num_nodes or 1)
    until(
        lambda: all("up\n" in log_of(client, job, rank) for rank in ranks),
        words=lambda: str(client.get_job(job.id)),
    )
    return job


def log_of(client: Client, job: Job, rank: int) -> str:
    if client.get_job(job.id).status is Status.PENDING:
        return ""
    return client.get_job_logs(job.id, rank=rank)


def cancel_one(client: Client, job: Job) -> None:
    assert client.cancel_job(job.id, grace=120) is True


def cancel_with_others(client: Client, job: Job) -> None:
    other = start(client, "echo up; sleep 300")
    assert client.cancel_jobs([job.id, other.id], grace=120) == {job.id: True, other.id: True}


@pytest.mark.parametrize("end", [cancel_one, cancel_with_others])
@pytest.mark.parametrize("command", [PYTHON, f"{PYTHON}; echo more", f"exec {PYTHON}"])
def test_a_program_is_told_once_and_has_its_time_also_where_a_shell_started_it(
    client: Client, command: str, end: Callable[[Client, Job], None]
) -> None:
    job = start(client, command)
    end(client, job)
    assert client.get_job(job.id).status is Status.CANCELED
    assert client.get_job_logs(job.id) == "up\ntold 1\n"


@pytest.mark.parametrize("files", [{}, {"note": "for the runner"}], ids=["plain", "packed"])
def test_the_program_of_each_node_is_told_once(client: Client, files: dict[str, str]) -> None:
    job = start(client, PYTHON, num_nodes=2, files=files)
    cancel_one(client, job)
    assert client.get_job(job.id).status is Status.CANCELED
    for rank in (0, 1):
        assert log_of(client, job, rank) == "up\ntold 1\n"


def test_a_node_that_ends_at_once_leaves_the_others_their_time(client: Client) -> None:
    """srun kills all tasks when one of them fails."""
    first = "echo up; exec sleep 300"
    job = start(client, f'if [ "$NODE_RANK" = 0 ]; then {first}; fi; {PYTHON}', num_nodes=2)
    cancel_one(client, job)
    assert log_of(client, job, 1) == "up\ntold 1\n"


def test_a_program_is_told_once_at_slurms_own_time_limit(cluster: Cluster, client: Client) -> None:
    """SLURM signals the task twice then."""
    job = start(client, PYTHON)
    ref = client.engine.ref_of(job)
    assert ref is not None
    cluster.ask("scontrol", "update", f"jobid={ref.native_id}", "EndTime=now+1")
    until(lambda: client.get_job(job.id).status.terminal)
    assert client.get_job_logs(job.id) == "up\ntold 1\n"


def test_a_program_is_told_once_at_the_jobs_own_timeout(client: Client) -> None:
    job = start(client, f"{PYTHON}; echo more", time_limit="20s")
    until(lambda: client.get_job(job.id).status.terminal)
    assert client.get_job_logs(job.id) == "up\ntold 1\n"


def test_a_program_that_its_shell_started_in_a_task_can_be_interrupted(client: Client) -> None:
    """A shell lets what runs in its background ignore SIGINT."""
    asks = "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    job = client.submit(
        JobSpec(command=f"echo up; python3 -c {shlex.quote(asks)}", gpu_count=0, cpus=1),
        "slurm",
        {"partition": "grizzly"},
    ).job
    client.wait(job.id, timeout=300)
    assert client.get_job_logs(job.id) == "up\nFalse\n"


def test_a_job_canceled_before_its_task_began_does_not_start_its_command(
    cluster: Cluster, client: Client
) -> None:
    """Its batch script finds the grace that a cancel has left."""
    spec = JobSpec(command="echo started; sleep 300", gpu_count=0, cpus=1)
    job = client.submit(spec, "slurm", {"partition": "grizzly"}).job
    ref = client.engine.ref_of(job)
    assert ref is not None
    assert client.cancel_job(job.id, grace=60) is True
    assert client.get_job(job.id).status is Status.CANCELED
    assert ref.native_id not in cluster.jobs()
