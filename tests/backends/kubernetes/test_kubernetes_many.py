"""Many running jobs: a look costs a handful of requests, however many there are, and each log has
its turn. Their nodes are simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes import fault_proxy
from support.kubernetes.fault_proxy import FaultProxy
from support.kubernetes.kube_here import Cluster
from support.waiting import until
from tao_sdk.backends.kubernetes.cluster import watch
from tao_sdk.backends.kubernetes.cluster.watch import LOGS_PER_LOOK
from tao_sdk.client import Client
from tao_sdk.engine.waiting import Waiting
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, mint_id
from tao_sdk.model.status import Status

JOBS = 20
LISTS = 2  # requests of a look at many: the Jobs and the pods
LIVES = {"simulated/seconds": "600", "simulated/log": "epoch 1/9 loss 2.0\n"}


@pytest.fixture
def proxy(simulation: Cluster) -> Iterator[FaultProxy]:
    node = mint_id("many")
    simulation.simulate_nodes({node: {"gpus": 8}})
    with fault_proxy.before(simulation) as proxy:
        yield proxy
    simulation.remove_nodes([node])


@pytest.fixture
def client(proxy: FaultProxy, simulation: Cluster, tmp_path: Path) -> Iterator[Client]:
    namespace = simulation.make_namespace()
    kubeconfig = proxy.write_kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    environ = {"KUBECONFIG": str(kubeconfig), "TAO_K8S_NAMESPACE": namespace}
    environ |= {"HOME": str(tmp_path), "TAO_SDK_STATE_DIR": str(tmp_path / "state")}
    with Client(settings=Settings(environ)) as client:
        yield client
    simulation.clear_namespace(namespace)


def running(client: Client, number: int, **options: Any) -> list[Job]:
    spec = JobSpec(image="simulated:1", command="sleep 600", gpu_count=0)
    given = {"annotations": LIVES, **options}
    jobs = [client.submit(spec, "kubernetes", given).job for _ in range(number)]

    def all_run() -> bool:
        return {job.status for job in client.list_jobs()} == {Status.RUNNING}

    until(all_run)
    return jobs


def logs_in(requests: list[str]) -> list[str]:
    """The pods whose logs were asked for."""
    return [
        line.partition("/pods/")[2].partition("/log")[0] for line in requests if "/log?" in line
    ]


def test_a_list_of_many_running_jobs_costs_a_handful_of_requests_and_reads_each_log_in_turn(
    client: Client, proxy: FaultProxy
) -> None:
    running(client, JOBS)
    kube = client.engine.backend("kubernetes").kube  # pyright: ignore
    asked = set(logs_in(proxy.requests))
    for _ in range(-(-JOBS // LOGS_PER_LOOK) + 1):
        proxy.requests.clear()
        before = kube.requests
        client.list_jobs()
        assert kube.requests - before <= LISTS + LOGS_PER_LOOK, proxy.requests
        asked.update(logs_in(proxy.requests))
    assert len(asked) == JOBS
    assert {job.progress.epoch for job in client.list_jobs(look=False)} == {1}
    proxy.requests.clear()
    client.list_jobs()
    assert len(proxy.requests) == LISTS, "all logs were read a moment ago"


def test_a_submit_costs_five_requests_and_one_for_all_that_the_job_owns(
    client: Client, proxy: FaultProxy
) -> None:
    def requests_of(**spec: Any) -> list[str]:
        proxy.requests.clear()
        job = JobSpec(image="simulated:1", command="sleep 600", gpu_count=0, **spec)
        client.submit(job, "kubernetes", {"annotations": LIVES})
        return [line for line in proxy.requests if "watch=true" not in line]

    asked = requests_of()
    assert len(asked) == 5, asked
    assert [line.partition(" ")[0] for line in asked].count("GET") == 1  # the nodes
    owns = requests_of(env_vars={"MY_TOKEN": "value"}, num_nodes=2)
    assert len([line for line in owns if "/jobs" in line and "dryRun" not in line]) == 2
    assert len([line for line in owns if line.startswith("POST") and "/secrets" in line]) == 1


def test_who_waits_for_many_quiet_jobs_asks_for_a_few_logs_at_a_time(
    client: Client, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LOG_SECONDS", 0.0)  # as if so much time passed between two looks
    jobs = running(client, JOBS)
    waiting = Waiting(client.engine)
    waiting.look(jobs)  # the watches begin
    until(lambda: waiting.look(jobs) and all_tell(waiting))
    asked: set[str] = set()
    fewest = JOBS
    while len(asked) < JOBS or fewest > LOGS_PER_LOOK:
        now_due(waiting)
        proxy.requests.clear()
        waiting.look(jobs)
        plain = [line for line in proxy.requests if "watch=true" not in line]
        assert len(plain) <= LISTS + LOGS_PER_LOOK, plain
        asked.update(logs_in(plain))
        fewest = min(fewest, len(plain))  # without a list, once none has changed
    waiting.close()


def all_tell(waiting: Waiting) -> bool:
    now_due(waiting)
    return all(listener.tells for listener in waiting._listeners.values())  # pyright: ignore


def now_due(waiting: Waiting) -> None:
    for pace in waiting._paces.values():  # pyright: ignore[reportPrivateUsage]
        pace.next_look = 0.0


def test_many_jobs_that_wait_for_all_their_ranks_are_seen_in_two_lists(
    client: Client, proxy: FaultProxy
) -> None:
    holding = {"gang": "wait", "gang_timeout": timedelta(hours=1), "annotations": LIVES}
    holder = JobSpec(image="simulated:1", command="sleep 600", gpu_count=4)
    client.submit(holder, "kubernetes", {"annotations": LIVES})
    until(lambda: client.list_jobs()[0].status is Status.RUNNING)
    spec = JobSpec(image="simulated:1", command="sleep 600", gpu_count=4, num_nodes=2)
    for _ in range(5):
        client.submit(spec, "kubernetes", holding)
    until(lambda: any("1 of 2 ranks run" in job.message for job in client.list_jobs()))
    client.list_jobs()
    proxy.requests.clear()
    client.list_jobs()
    assert [line for line in proxy.requests if "/log?" not in line and "watch" not in line] == [
        line for line in proxy.requests if "labelSelector=tao-sdk-store" in line
    ]
    assert len(proxy.requests) == LISTS + len(logs_in(proxy.requests))


def test_a_job_that_has_ended_is_told_without_a_question(client: Client, proxy: FaultProxy) -> None:
    spec = JobSpec(image="simulated:1", command="true", gpu_count=0)
    job = client.submit(spec, "kubernetes").job
    client.wait(job.id, timeout=300)
    proxy.requests.clear()
    assert client.get_job_status(job.id).status == Status.COMPLETE.value
    assert [each.status for each in client.list_jobs()] == [Status.COMPLETE]
    assert proxy.requests == []
