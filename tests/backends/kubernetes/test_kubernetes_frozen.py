"""An API server that freezes, or of which the watches do: nobody waits for it for ever, and nothing
of a job is lost. The limits are those that we promise.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes.fault_proxy import FaultProxy
from support.kubernetes.kube_here import Cluster, namespaced
from support.waiting import until
from tao_sdk.backends.kubernetes.cluster import watch
from tao_sdk.client import Client
from tao_sdk.engine import listening
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


def submit(client: Client, spec: JobSpec = SPEC) -> Job:
    return client.submit(spec, "kubernetes").job


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


LINES = 120
PRINTS = replace(SPEC, command=f"for i in $(seq {LINES}); do echo line $i; sleep 0.1; done; exit 3")
PRINTED = b"".join(b"line %d\n" % number for number in range(1, LINES + 1))


def test_a_job_that_ends_while_its_server_is_frozen_loses_no_line_and_no_end(
    client: Client, proxy: FaultProxy, cluster: Cluster, namespace: str
) -> None:
    """Somebody follows its log, and somebody waits for its end."""
    job = submit(client, PRINTS)
    read, ends = list[bytes](), list[Any]()
    following = threading.Thread(target=lambda: read.extend(client.follow_logs(job.id)))
    waiting = threading.Thread(target=lambda: ends.append(client.wait(job.id, timeout=300)))
    for thread in (following, waiting):
        thread.start()
    until(lambda: b"line 5\n" in b"".join(read))
    jobs = f"{namespaced(namespace, 'batch/v1')}/jobs"
    with proxy.frozen():
        until(lambda: cluster.api.get(jobs)["items"][0]["status"].get("failed"))
        assert ends == []
    for thread in (following, waiting):
        thread.join(300)
    assert [end.status for end in ends] == [Status.ERROR]
    assert client.get_job(job.id).exit_code == 3
    assert b"".join(read) == PRINTED


def test_a_wait_ends_at_the_next_look_at_all_jobs_when_the_watches_tell_nothing(
    client: Client, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "WHOLE_SECONDS", 2.0)
    monkeypatch.setattr(watch, "LOG_SECONDS", 300.0)  # a look into its log would see the end too
    end = tmp_path / "end"
    command = f"until [ -e {end} ]; do sleep 0.1; done"
    job = submit(client, replace(SPEC, command=command, mounts=[f"{tmp_path}:{tmp_path}"]))
    until(lambda: client.get_job(job.id).status is Status.RUNNING)
    ends = list[Any]()
    waiting = threading.Thread(target=lambda: ends.append(client.wait(job.id, timeout=300)))
    waiting.start()
    until(lambda: len(proxy.watches) == 2)
    with proxy.swallowing():
        end.touch()
        waiting.join(300)
    assert [each.status for each in ends] == [Status.COMPLETE]
    assert proxy.swallowed
