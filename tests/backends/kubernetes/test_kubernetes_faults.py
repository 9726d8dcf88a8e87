"""A server that is busy, says that a watch comes too late, drops watches, or is restarted: no job is
lost, none runs twice, and its log is whole.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from support.kubernetes.fault_proxy import FaultProxy
from support.kubernetes.kube_here import Cluster, namespaced
from support.waiting import until
from tao_sdk.client import Client
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

LINES = 300
PRINTS = f"for i in $(seq {LINES}); do echo line $i; sleep 0.02; done"
PRINTED = b"".join(b"line %d\n" % number for number in range(1, LINES + 1))


@pytest.fixture
def client(client_through_proxy: Client) -> Client:
    return client_through_proxy


def submit(client: Client, command: str = PRINTS, **more: Any) -> Job:
    spec = JobSpec(image="tests.local/python:1", command=command, gpu_count=0, **more)
    return client.submit(spec, "kubernetes").job


def made_in(cluster: Cluster, namespace: str) -> tuple[int, int]:
    """How many Jobs and how many pods there are."""
    jobs = cluster.api.get(f"{namespaced(namespace, 'batch/v1')}/jobs")["items"]
    return len(jobs), len(cluster.api.get(f"{namespaced(namespace)}/pods")["items"])


@contextmanager
def again_and_again(act: object, pause: float = 0.3) -> Iterator[None]:
    """Do it in a thread until the body has ended."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(pause):
            act()  # type: ignore[operator]

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_server_that_is_busy_at_every_question_gets_each_job_once_and_gives_its_log_whole(
    client: Client, proxy: FaultProxy, cluster: Cluster, namespace: str
) -> None:
    busy = ("POST ", "PATCH ", "GET /apis/batch", "GET /api/v1", "/log?")
    for words in busy:
        proxy.refuse(429, words, times=2, Retry_After="1")
    job = submit(client)
    for words in busy[2:]:
        proxy.refuse(429, words, times=2, Retry_After="1")
    assert b"".join(client.follow_logs(job.id)) == PRINTED
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    assert made_in(cluster, namespace) == (1, 1)


@pytest.mark.parametrize("fault", ["dropped", "expired"])
def test_watches_that_break_hide_no_change_and_no_line(
    client: Client, proxy: FaultProxy, cluster: Cluster, namespace: str, fault: str
) -> None:
    job = submit(client)
    if fault == "expired":
        proxy.expire_watches(1_000_000)
    read: list[bytes] = []
    reading = threading.Thread(target=lambda: read.extend(client.follow_logs(job.id)))
    reading.start()
    with again_and_again(proxy.drop_watches):
        assert client.wait(job.id, timeout=300).status is Status.COMPLETE
        reading.join(300)
    assert b"".join(read) == PRINTED
    assert made_in(cluster, namespace) == (1, 1)


def test_a_server_that_is_restarted_while_a_job_runs_and_ends_loses_no_line_and_no_end(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    job = submit(client)
    read: list[bytes] = []
    reading = threading.Thread(target=lambda: read.extend(client.follow_logs(job.id)))
    reading.start()
    until(lambda: b"line 10\n" in b"".join(read))
    cluster.restart_api_server()  # it runs on meanwhile
    until(lambda: b"line 250\n" in b"".join(read))
    cluster.restart_api_server()  # it ends meanwhile
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    reading.join(300)
    assert b"".join(read) == PRINTED
    assert made_in(cluster, namespace) == (1, 1)


@pytest.mark.parametrize("step", ["POST ", "PATCH "])
def test_a_submit_in_whose_middle_the_server_is_restarted_is_finished_once_or_not_begun(
    client: Client, proxy: FaultProxy, cluster: Cluster, namespace: str, step: str
) -> None:
    """It is killed once it has got the Job, and before the Job, which owns a Secret, is let go. A
    Job's controller that loses a reply then may make a second pod, as Kubernetes' documents say.
    """
    client.plan(JobSpec(image="tests.local/python:1", command="true", gpu_count=0), "kubernetes")
    proxy.requests.clear()

    def is_there() -> bool:
        return any(line.startswith(step) and "/jobs" in line for line in list(proxy.requests))

    submitting = threading.Thread(target=lambda: tried_submit(client))
    submitting.start()
    until(is_there)
    cluster.restart_api_server()
    submitting.join()
    until(lambda: all(job.status is Status.COMPLETE for job in client.list_jobs()))
    known = client.list_jobs(look=False)
    jobs, pods = made_in(cluster, namespace)
    assert jobs == len(known) <= pods
    assert all(client.get_job_logs(job.id).encode() == PRINTED for job in known)


def tried_submit(client: Client) -> None:
    with suppress(Unreachable):
        submit(client, env_vars={"A_TOKEN": "of-a-test"})
