"""The engine decides by codes: it decides the same of jobs on SLURM when every sentence of ours is
noise. What SLURM says stays as it is.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.cluster.cluster_here import Cluster
from support.decisions import (
    explained,
    fail_from_now_on,
    has_ended,
    is_running,
    wait_until,
    waits_for_next_attempt,
    watch,
)
from support.noise import say_noise
from tao_sdk.backends.slurm import rules
from tao_sdk.client import Client
from tao_sdk.engine import retry
from tao_sdk.model.errors import Refused, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.reasons import Reason
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

FIRST_WAITS = '[ "$TAO_ATTEMPT" = 2 ] || sleep 600'
LOST_NODE = 3  # of the cluster's nodes; its daemon brings it back by itself


@pytest.fixture(params=["our sentences", "noise"], autouse=True)
def sentences(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_SECONDS", 0.5)
    if request.param == "noise":
        say_noise(monkeypatch, rules)


def start(client: Client, command: str, options: dict[str, Any] | None = None, **more: Any) -> Job:
    spec = JobSpec(command=command, **{"name": "noise", "gpu_count": 0, "cpus": 1, **more})
    return client.submit(spec, "slurm", {"partition": "grizzly", **(options or {})}).job


def start_running(client: Client, command: str, **more: Any) -> Job:
    return wait_until(client, start(client, command, **more), is_running)


def start_and_lose_node(client: Client, cluster: Cluster) -> Job:
    """A job with another attempt left, at the end of its first."""
    node = cluster.place.nodes[LOST_NODE]
    options = {"nodelist": node, "requeue": False}
    job = start_running(client, FIRST_WAITS, options=options, retries=1)
    cluster.fail_node(node)
    return wait_until(client, job, waits_for_next_attempt)


def slurm_id(client: Client, job: Job) -> str:
    ref = client.engine.ref_of(job)
    assert ref is not None
    return ref.native_id


def test_a_job_that_ends_well_is_complete(client: Client) -> None:
    ended = wait_until(client, start(client, "true"), has_ended)
    assert (ended.status, ended.reason_code, ended.exit_code) == (Status.COMPLETE, None, 0)
    assert client.diagnose(ended.id) is None


def test_an_exit_code_is_the_programs_and_is_not_tried_again(client: Client) -> None:
    ended = wait_until(client, start(client, "exit 3", retries=2), has_ended)
    assert (ended.status, ended.reason_code, ended.exit_code, ended.attempt) == (
        Status.ERROR,
        Reason.EXIT_CODE,
        3,
        1,
    )
    assert explained(client, ended) == ("nothing_known", False)


def test_a_job_at_its_time_limit_is_not_tried_again(client: Client) -> None:
    job = start(client, "sleep 60", time_limit=timedelta(seconds=3), retries=2)
    ended = wait_until(client, job, has_ended)
    assert (ended.status, ended.reason_code, ended.attempt) == (Status.ERROR, Reason.TIME_LIMIT, 1)
    assert explained(client, ended) == ("slurm.time_limit", False)


def test_a_job_whose_node_failed_is_tried_again(client: Client, cluster: Cluster) -> None:
    waiting = start_and_lose_node(client, cluster)
    assert (waiting.status, waiting.reason_code, waiting.attempt) == (
        Status.PENDING,
        Reason.NEXT_ATTEMPT,
        1,
    )
    assert explained(client, waiting) == ("slurm.node_failed", True)
    watch(client)
    ended = client.get_job(waiting.id)
    assert (ended.status, ended.attempt, ended.exit_code) == (Status.COMPLETE, 2, 0)


def test_a_canceled_job_is_canceled(client: Client) -> None:
    job = start_running(client, "sleep 600")
    assert client.cancel_job(job.id, grace=0)
    ended = wait_until(client, job, has_ended)
    assert (ended.status, ended.reason_code) == (Status.CANCELED, Reason.CANCELED)
    assert client.diagnose(job.id) is None


def test_a_job_that_waits_for_its_next_attempt_can_be_canceled(
    client: Client, cluster: Cluster
) -> None:
    job = start_and_lose_node(client, cluster)
    assert client.cancel_job(job.id, grace=0)
    ended = client.get_job(job.id)
    assert (ended.status, ended.attempt, ended.next_attempt_at) == (Status.CANCELED, 1, None)


def test_a_job_that_slurm_ended_from_outside_is_canceled(client: Client, cluster: Cluster) -> None:
    job = start_running(client, "sleep 600")
    cluster.ask("scancel", slurm_id(client, job))
    ended = wait_until(client, job, has_ended)
    assert (ended.status, ended.reason_code) == (Status.CANCELED, Reason.CANCELED)


def test_a_job_that_cannot_be_seen_keeps_its_status(client: Client) -> None:
    job = start_running(client, "sleep 600")
    restore = fail_from_now_on(client, job, "observe", Unreachable("connection refused"))
    unseen = client.get_job(job.id)
    assert (unseen.status, unseen.reason_code) == (Status.RUNNING, Reason.NOT_SEEN)
    restore()
    again = wait_until(client, job, lambda now: now.reason_code is None)
    assert again.status is Status.RUNNING


def test_what_sbatch_refuses_is_refused(client: Client) -> None:
    with pytest.raises(Refused) as refused:
        start(client, "true", memory="9000g")
    assert refused.value.code == "slurm.refused"
