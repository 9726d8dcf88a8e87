"""The engine decides by codes: it decides the same of jobs on Kubernetes when every sentence of ours
is noise. What the cluster says stays as it is.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.decisions import (
    explained,
    fail_from_now_on,
    has_ended,
    is_running,
    wait_until,
    waits_for_next_attempt,
)
from support.kubernetes.kube_here import Cluster, namespaced
from support.noise import say_noise
from tao_sdk.backends.kubernetes import rules
from tao_sdk.client import Client
from tao_sdk.engine import retry
from tao_sdk.model.errors import Refused, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.reasons import Reason
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

PYTHON = "tests.local/python:1"
NOWHERE = "127.0.0.1:9/none:1"


@pytest.fixture(params=["our sentences", "noise"], autouse=True)
def sentences(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_SECONDS", 0.5)
    if request.param == "noise":
        say_noise(monkeypatch, rules)


def start(client: Client, command: str, options: dict[str, Any] | None = None, **more: Any) -> Job:
    spec = JobSpec(command=command, **{"image": PYTHON, "gpu_count": 0, **more})
    return client.submit(spec, "kubernetes", options or {}).job


def test_jobs_end_by_what_the_cluster_and_their_programs_say(client: Client) -> None:
    """They run side by side: a pod takes seconds to start."""
    good = start(client, "true")
    failing = start(client, "exit 3", retries=2)
    slow = start(client, "sleep 60", time_limit=timedelta(seconds=3), retries=2)
    hungry = start(client, "python3 -c 'x = bytearray(300 << 20)'", memory="40m")
    unpulled = start(client, "true", {"pull_timeout": "5s"}, image=NOWHERE)
    ended = {
        job.id: wait_until(client, job, has_ended)
        for job in (good, failing, slow, hungry, unpulled)
    }

    assert ended[good.id].status is Status.COMPLETE
    assert client.diagnose(good.id) is None
    decisions = {
        job.id: (ended[job.id].reason_code, ended[job.id].exit_code, explained(client, job))
        for job in (failing, slow, hungry, unpulled)
    }
    assert decisions == {
        failing.id: (Reason.EXIT_CODE, 3, ("nothing_known", False)),
        slow.id: (Reason.TIME_LIMIT, 124, ("kubernetes.deadline", False)),
        hungry.id: (Reason.OUT_OF_MEMORY, 137, ("kubernetes.oom", False)),
        unpulled.id: (Reason.PULL_FAILED, None, ("kubernetes.pull", True)),
    }


def test_what_happens_to_running_jobs_from_outside_is_told_apart(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    taken = start(client, "sleep 600", retries=1)
    removed = start(client, "sleep 600")
    canceled = start(client, "sleep 600")
    for job in (taken, removed, canceled):
        wait_until(client, job, is_running)

    restore = fail_from_now_on(client, canceled, "observe", Unreachable("connection refused"))
    unseen = client.get_job(canceled.id)
    assert (unseen.status, unseen.reason_code) == (Status.RUNNING, Reason.NOT_SEEN)
    restore()
    assert client.cancel_job(canceled.id, grace=0)
    assert client.get_job(canceled.id).reason_code is Reason.CANCELED
    assert client.diagnose(canceled.id) is None

    cluster.api.delete(f"{namespaced(namespace, 'batch/v1')}/jobs/tao-job-{removed.id}")
    pod_list = f"{namespaced(namespace)}/pods?labelSelector=tao-sdk-job-id%3D{taken.id}"
    for pod in cluster.api.get(pod_list)["items"]:
        cluster.evict(namespace, pod["metadata"]["name"])
    lost = wait_until(client, removed, has_ended)
    assert (lost.reason_code, explained(client, lost)) == (
        Reason.REMOVED_OUTSIDE,
        ("removed_outside", True),
    )
    waiting = wait_until(client, taken, waits_for_next_attempt)
    assert (waiting.reason_code, explained(client, waiting)) == (
        Reason.NEXT_ATTEMPT,
        ("kubernetes.evicted", True),
    )
    assert client.cancel_job(taken.id, grace=0)
    ended = client.get_job(taken.id)
    assert (ended.status, ended.attempt, ended.next_attempt_at) == (Status.CANCELED, 1, None)


def test_what_the_cluster_refuses_is_refused(client: Client) -> None:
    with pytest.raises(Refused) as refused:
        start(client, "true", {"priority_class": "nobody-made-it"})
    assert refused.value.code == "kubernetes.refused"
