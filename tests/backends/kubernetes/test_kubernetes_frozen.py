"""An API server that freezes: nobody waits for it for ever. The limits are those that we promise."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.kubernetes.fault_proxy import FaultProxy
from support.kubernetes.kube_here import Cluster
from support.waiting import until
from tao_sdk.client import Client
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

SUBMIT_SECONDS, STATUS_SECONDS = 60, 30
SPEC = JobSpec(image="tests.local/python:1", command="sleep 300", gpu_count=0)


@pytest.fixture
def client(client_through_proxy: Client) -> Client:
    return client_through_proxy


def seconds_of(act: Callable[[], Any]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def submit(client: Client) -> Job:
    return client.submit(SPEC, "kubernetes").job


def refused_submit(client: Client) -> None:
    with pytest.raises(Unreachable):
        submit(client)


def test_a_submit_gives_up_in_time_when_nobody_answers(client: Client, proxy: FaultProxy) -> None:
    with proxy.frozen():
        assert seconds_of(lambda: refused_submit(client)) < SUBMIT_SECONDS
    assert client.list_jobs() == []


def test_a_submit_that_freezes_in_its_middle_gives_up_and_is_finished_later(
    client: Client, proxy: FaultProxy
) -> None:
    submit(client)
    proxy.requests.clear()

    def freeze_at_creation() -> None:
        until(lambda: any(is_creation(line) for line in list(proxy.requests)))
        proxy.moves.clear()

    freezing = threading.Thread(target=freeze_at_creation)
    freezing.start()
    try:
        assert seconds_of(lambda: tried_submit(client)) < SUBMIT_SECONDS
    finally:
        freezing.join()
        proxy.moves.set()
    until(lambda: [job.status for job in client.list_jobs()] == [Status.RUNNING] * 2)


def is_creation(line: str) -> bool:
    return line.startswith("POST ") and line.endswith("/jobs")


def tried_submit(client: Client) -> None:
    try:
        submit(client)
    except Unreachable:
        return


def test_a_status_is_there_in_time_when_nobody_answers(client: Client, proxy: FaultProxy) -> None:
    job = submit(client)
    until(lambda: client.get_job(job.id).status is Status.RUNNING)
    other = submit(client)
    with proxy.frozen():
        assert seconds_of(lambda: client.get_job_status(job.id)) < STATUS_SECONDS
        assert seconds_of(client.list_jobs) < STATUS_SECONDS
        assert client.get_job(job.id, look=False).status is Status.RUNNING
    until(lambda: client.get_job(other.id).status is Status.RUNNING)


def test_a_hung_server_is_no_longer_wait(client: Client, cluster: Cluster) -> None:
    job = submit(client)
    with cluster.hung():
        assert seconds_of(lambda: client.get_job_status(job.id)) < STATUS_SECONDS
        assert seconds_of(lambda: refused_submit(client)) < SUBMIT_SECONDS
