"""A cancel on a real cluster: its grace counts, whoever else deletes the pods."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.waiting import until
from tao_sdk.backends.contract import LogRequest
from tao_sdk.backends.kubernetes import look
from tao_sdk.backends.kubernetes.backend import KubernetesBackend
from tao_sdk.backends.kubernetes.job.manifests import GRACE
from tao_sdk.backends.kubernetes.look import core_path, items, jobs_path
from tao_sdk.backends.kubernetes.pods import ending
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, mint_id


@pytest.fixture
def backend(surroundings: dict[str, str], tmp_path: Path) -> Iterator[KubernetesBackend]:
    made = KubernetesBackend(Settings(surroundings), tmp_path / "state")
    yield made
    made.close()


def submit(backend: KubernetesBackend, command: str, **more: Any) -> Ref:
    spec = JobSpec(image="tests.local/python:1", command=command, gpu_count=0, **more)
    prepared, options = PreparedJob(spec, command), backend.Options()
    facts = backend.survey(prepared, options)
    attempt = Attempt(mint_id("cancel"), 1, "kubernetes", backend.endpoint, "feedfeedfeedfeed")
    return backend.submit(backend.plan(prepared, options, facts, attempt), {})


def start(backend: KubernetesBackend, command: str, **more: Any) -> Ref:
    """The Ref of a job whose ranks have all printed `up`."""
    ref = submit(backend, command, **more)
    for rank in range(more.get("num_nodes") or 1):
        asked = LogRequest(rank=rank)
        until(lambda asked=asked: any(b"up" in chunk.data for chunk in backend.logs(ref, asked)))
    return ref


def start_deaf(backend: KubernetesBackend, end: Path, ranks: int) -> Ref:
    """The Ref of a job whose ranks hear no signal, and end once the file `end` is there."""
    command = f"trap '' TERM; echo up; until [ -e {end} ]; do sleep 0.1; done"
    return start(backend, command, num_nodes=ranks, mounts=[f"{end.parent}:{end.parent}"])


def pods_of(backend: KubernetesBackend, ref: Ref) -> list[Any]:
    selector = f"tao-sdk-job-id={ref.attempt.job_id}"
    return items(backend.kube, core_path(ref.namespace, "pods"), labelSelector=selector)


def graces_of(backend: KubernetesBackend, ref: Ref) -> list[int | None]:
    """Of each pod the seconds that its deletion gives; None where it is not being deleted."""
    pods = pods_of(backend, ref)
    return [pod["metadata"].get("deletionGracePeriodSeconds") for pod in pods]


def delete_job(backend: KubernetesBackend, ref: Ref) -> None:
    """As somebody else does: the garbage collector deletes the pods with their own grace."""
    path = jobs_path(ref.namespace, ref.native_id)
    backend.kube.ask("DELETE", path, {"propagationPolicy": "Foreground"})
    until(lambda: graces_of(backend, ref) == [GRACE])


def test_a_cancel_waits_for_pods_that_somebody_has_deleted_with_more_time(
    backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "MARGIN", 1.0)
    ref = start(backend, "trap 'sleep 4; exit' TERM; echo up; while :; do sleep 0.1; done")
    delete_job(backend, ref)
    answer = backend.cancel([ref], timedelta(seconds=1))[ref]
    assert isinstance(answer, Observation) and answer.phase is Phase.CANCELED


@pytest.mark.parametrize(("grace", "ranks"), [(GRACE // 2, 1), (GRACE * 10, 2)])
def test_the_grace_of_a_cancel_counts_however_fast_the_garbage_collector_is(
    backend: KubernetesBackend,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    grace: int,
    ranks: int,
) -> None:
    end = tmp_path / "end"
    ref = start_deaf(backend, end, ranks)
    ask, given = backend.kube.ask, list[int | None]()

    def watching_ask(method: str, path: str, *more: Any, **named: Any) -> Any:
        answer = ask(method, path, *more, **named)
        if method == "DELETE" and "/jobs/" in path:
            until(lambda: None not in graces_of(backend, ref))
            given.extend(graces_of(backend, ref))
            end.touch()
        return answer

    monkeypatch.setattr(backend.kube, "ask", watching_ask)
    answer = backend.cancel([ref], timedelta(seconds=grace))[ref]
    assert isinstance(answer, Observation) and answer.phase is Phase.CANCELED
    assert given == [grace] * ranks


def test_ranks_have_the_cancels_grace_however_slowly_they_are_deleted(
    backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Once the Job's controller has seen the first go, it would delete the others with their own."""
    end = tmp_path / "end"
    ref = start_deaf(backend, end, 2)
    ask, given = backend.kube.ask, list[int | None]()

    def sees_the_first_go() -> bool:
        job = look.get_job(backend.kube, ref.namespace, ref.native_id)
        assert job is not None
        return bool(job["status"].get("terminating") or job["status"].get("failed"))

    def slow_ask(method: str, path: str, *more: Any, **named: Any) -> Any:
        if method == "DELETE" and "/jobs/" in path:
            given.extend(graces_of(backend, ref))
            end.touch()
        answer = ask(method, path, *more, **named)
        if method == "DELETE" and "/pods/" in path:
            until(sees_the_first_go)
        return answer

    monkeypatch.setattr(ending, "DELETES", 1)
    monkeypatch.setattr(backend.kube, "ask", slow_ask)
    answer = backend.cancel([ref], timedelta(seconds=GRACE * 10))[ref]
    assert isinstance(answer, Observation) and answer.phase is Phase.CANCELED
    assert given == [GRACE * 10] * 2


def test_a_pod_that_was_made_after_a_cancel_has_listed_them_has_the_cancels_grace(
    backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = submit(backend, "trap '' TERM; while :; do sleep 0.1; done")
    listing, ask, graces = look.pods_of, backend.kube.ask, list[Any]()

    def list_too_early(*given: Any) -> Any:
        monkeypatch.setattr(look, "pods_of", listing)
        return []

    def watching_ask(method: str, path: str, body: Any = None, *more: Any, **named: Any) -> Any:
        if method == "DELETE" and "/jobs/" in path:
            until(lambda: pods_of(backend, ref))
        if method == "DELETE" and "/pods/" in path:
            graces.append(body["gracePeriodSeconds"])
        return ask(method, path, body, *more, **named)

    monkeypatch.setattr(look, "pods_of", list_too_early)
    monkeypatch.setattr(backend.kube, "ask", watching_ask)
    answer = backend.cancel([ref], timedelta(seconds=1))[ref]
    assert isinstance(answer, Observation) and answer.phase is Phase.CANCELED
    assert graces == [1]


@pytest.mark.parametrize(
    ("command", "ranks", "requests"),
    [
        ("trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done", 1, 4),
        ("echo up; exec sleep 300", 1, 4),
        ("echo up; exec sleep 300", 3, 7),
    ],
    ids=["a-trap", "no-handler", "three-ranks"],
)
def test_a_cancel_of_pods_that_run_takes_few_requests_beside_their_logs(
    backend: KubernetesBackend, command: str, ranks: int, requests: int
) -> None:
    """It is over long before the grace is, also for a program that does not handle the signal.
    Each further pod costs its own deletion, and several the word to their controller.
    """
    ref = start(backend, command, num_nodes=ranks)
    asked = backend.kube.requests
    answer = backend.cancel([ref], timedelta(seconds=60))[ref]
    assert isinstance(answer, Observation) and answer.phase is Phase.CANCELED
    assert backend.kube.requests - asked == ranks + requests
