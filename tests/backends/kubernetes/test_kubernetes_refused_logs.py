"""Refused logs: what the cluster does not give is no empty log."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes import fault_proxy
from support.kubernetes.fault_proxy import FaultProxy
from support.kubernetes.kube_here import Cluster, namespaced
from support.waiting import until
from tao_sdk.backends.contract import LogRequest
from tao_sdk.backends.kubernetes.backend import KubernetesBackend
from tao_sdk.backends.kubernetes.pods import kept_log, logs
from tao_sdk.backends.kubernetes.pods.kept_log import BROKEN
from tao_sdk.model.errors import PathNotFound, Unreachable
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, mint_id

ALWAYS = 1_000_000
TWICE = 2  # of a pod seen lately, and of the one that may have taken its place
GRACE = timedelta(seconds=1)
NO_FILE = (
    'failed to try resolving symlinks in path "/var/log/pods/x/tao/0.log": '
    "lstat /var/log/pods/x/tao/0.log: no such file or directory"
)


@pytest.fixture
def backend(
    proxy: FaultProxy, surroundings: dict[str, str], namespace: str, tmp_path: Path
) -> Iterator[KubernetesBackend]:
    kubeconfig = proxy.write_kubeconfig(tmp_path / "through-proxy", namespace=namespace)
    settings = Settings({**surroundings, "KUBECONFIG": str(kubeconfig)})
    made = KubernetesBackend(settings, tmp_path / "state")
    yield made
    made.close()


def submit(backend: KubernetesBackend, command: str, **more: Any) -> Ref:
    spec = JobSpec(image="tests.local/python:1", command=command, gpu_count=0, **more)
    prepared, options = PreparedJob(spec, command), backend.Options()
    facts = backend.survey(prepared, options)
    attempt = Attempt(mint_id("logs"), 1, "kubernetes", backend.endpoint, "feedfeedfeedfeed")
    return backend.submit(backend.plan(prepared, options, facts, attempt), {})


def log_of(backend: KubernetesBackend, ref: Ref) -> bytes:
    return b"".join(chunk.data for chunk in backend.logs(ref, LogRequest()))


@pytest.mark.parametrize("status", [400, 404])
def test_a_refused_log_of_a_container_that_has_begun_is_no_empty_one(
    backend: KubernetesBackend, proxy: FaultProxy, status: int
) -> None:
    ref = submit(backend, "echo whole")
    until(lambda: backend.observe([ref])[ref].phase.ended)
    proxy.refuse(status, "/log?")
    with pytest.raises(Unreachable, match="could not be read"):
        log_of(backend, ref)
    assert log_of(backend, ref) == b"whole\n"


def test_a_log_that_its_node_has_lost_is_told_as_gone(
    backend: KubernetesBackend, proxy: FaultProxy
) -> None:
    """So a kubelet says it that evicted the pod and knows no container of it any more, or that has
    removed the container's log.
    """
    ref = submit(backend, "echo whole")
    until(lambda: backend.observe([ref])[ref].phase.ended)
    proxy.refuse(400, "/log?", TWICE, said='container "tao" in pod "x" is terminated')
    with pytest.raises(PathNotFound):
        log_of(backend, ref)
    proxy.refuse(400, "/log?", TWICE, said=NO_FILE)
    with pytest.raises(PathNotFound):
        log_of(backend, ref)


def test_a_log_is_gone_with_its_file_once_its_pod_is_being_deleted(
    backend: KubernetesBackend, proxy: FaultProxy, cluster: Cluster
) -> None:
    """A kubelet removes the log of a deleted pod before it says that the container has ended. Of
    another one the file is missing only while its log is rotated.
    """
    ref = submit(backend, "trap '' TERM; echo up; sleep 300")
    until(lambda: log_of(backend, ref))
    proxy.refuse(400, "/log?", TWICE, said=NO_FILE)
    with pytest.raises(Unreachable):
        log_of(backend, ref)
    cluster.api.delete(f"{namespaced(ref.namespace)}/pods", {"gracePeriodSeconds": 60})
    proxy.refusals.clear()
    proxy.refuse(400, "/log?", TWICE, said=NO_FILE)
    with pytest.raises(PathNotFound):
        log_of(backend, ref)


@pytest.mark.parametrize("tail", [None, 5])
def test_what_a_kubelet_says_in_a_logs_place_is_no_line_of_the_log(
    backend: KubernetesBackend, proxy: FaultProxy, tail: int | None
) -> None:
    """So it answers, with 200, once the container's files are gone."""
    ref = submit(backend, "echo whole")
    until(lambda: backend.observe([ref])[ref].phase.ended)
    gone = "unable to retrieve container logs for containerd://c6a78f2"
    proxy.refuse(200, "/log?", TWICE, said=gone)
    with pytest.raises(PathNotFound, match="unable to retrieve"):
        list(backend.logs(ref, LogRequest(tail=tail)))
    proxy.refuse(200, "/log?", said="failed to create fsnotify watcher: too many open files\n")
    with pytest.raises(Unreachable, match="too many open files"):
        list(backend.logs(ref, LogRequest(tail=tail)))
    assert b"".join(chunk.data for chunk in backend.logs(ref, LogRequest(tail=tail))) == b"whole\n"


def test_a_copy_that_the_cluster_refuses_is_no_empty_copy(
    backend: KubernetesBackend, proxy: FaultProxy
) -> None:
    ref = submit(backend, "echo up; sleep 300")
    until(lambda: log_of(backend, ref))
    proxy.refuse(400, "/log?", times=ALWAYS)
    backend.cancel([ref], GRACE)
    proxy.refusals.clear()
    until(lambda: backend.observe([ref])[ref].phase.over)
    with pytest.raises(PathNotFound):
        log_of(backend, ref)


def test_a_copy_that_is_refused_once_is_asked_for_again(
    backend: KubernetesBackend, proxy: FaultProxy, tmp_path: Path
) -> None:
    end = tmp_path / "end"
    command = f"trap '' TERM; echo up; until [ -e {end} ]; do sleep 0.1; done"
    ref = submit(backend, command, mounts=[f"{tmp_path}:{tmp_path}"])
    until(lambda: log_of(backend, ref))
    proxy.refuse(400, "/log?")
    canceling = threading.Thread(target=backend.cancel, args=([ref], timedelta(minutes=2)))
    canceling.start()
    until(lambda: sum("follow=true" in line for line in list(proxy.requests)) == 2)
    end.touch()
    canceling.join()
    assert log_of(backend, ref) == b"up\n"


# Copies that break off


class Canceling(threading.Thread):
    """Cancels a job that prints `up`, `more` once the file `more` is there, and ends at `end`."""

    def __init__(self, backend: KubernetesBackend, folder: Path) -> None:
        super().__init__()
        self.backend, self.folder = backend, folder
        wait = "until [ -e {} ]; do sleep 0.1; done"
        more, end = (wait.format(folder / name) for name in ("more", "end"))
        command = f"trap '' TERM; echo up; {more}; echo more; {end}"
        self.ref = submit(backend, command, mounts=[f"{folder}:{folder}"])
        until(lambda: log_of(backend, self.ref))
        self.start()
        until(lambda: self.copied() == b"up\n")

    def run(self) -> None:
        self.backend.cancel([self.ref], timedelta(minutes=10))

    def copied(self) -> bytes:
        if not self.backend.kept.has(self.ref.unique_id, 0):
            return b""
        chunks = self.backend.kept.read(self.ref.unique_id, 0, LogRequest())
        return b"".join(chunk.data for chunk in chunks)

    def go_on(self, name: str) -> None:
        (self.folder / name).touch()


@pytest.fixture
def streams_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    """`drop_watches` breaks logs off that are followed."""
    monkeypatch.setattr(fault_proxy, "is_watch", lambda path: "follow=true" in path)


def streams(proxy: FaultProxy) -> int:
    return sum("follow=true" in line for line in list(proxy.requests))


def test_the_log_of_a_silent_job_is_copied_however_long_it_is_silent(
    backend: KubernetesBackend,
    proxy: FaultProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "FOLLOW_SECONDS", 0.5)
    canceling = Canceling(backend, tmp_path)
    before = streams(proxy)
    until(lambda: streams(proxy) > before + 2)
    canceling.go_on("more")
    until(lambda: canceling.copied() == b"up\nmore\n")
    monkeypatch.setattr(logs, "FOLLOW_SECONDS", 60.0)  # else the end could fall between two
    asked = streams(proxy)
    until(lambda: streams(proxy) > asked)
    canceling.go_on("end")
    canceling.join()
    assert log_of(backend, canceling.ref) == b"up\nmore\n"


@pytest.mark.usefixtures("streams_drop")
def test_a_copy_that_breaks_off_goes_on_where_it_broke(
    backend: KubernetesBackend, proxy: FaultProxy, tmp_path: Path
) -> None:
    canceling = Canceling(backend, tmp_path)
    assert proxy.drop_watches()
    canceling.go_on("more")
    until(lambda: canceling.copied() == b"up\nmore\n")
    canceling.go_on("end")
    canceling.join()
    assert log_of(backend, canceling.ref) == b"up\nmore\n"


@pytest.mark.usefixtures("streams_drop")
def test_a_copy_that_broke_off_for_good_says_so_in_its_last_line(
    backend: KubernetesBackend, proxy: FaultProxy, tmp_path: Path
) -> None:
    canceling = Canceling(backend, tmp_path)
    proxy.refuse(400, "/log?", times=ALWAYS)
    assert proxy.drop_watches()
    canceling.go_on("more")
    canceling.go_on("end")
    canceling.join()
    assert log_of(backend, canceling.ref) == b"up\n" + BROKEN
    assert log_of(backend, canceling.ref) == b"up\n" + BROKEN


def test_who_follows_a_log_reads_it_to_its_end_while_another_cancels_the_job(
    backend: KubernetesBackend, tmp_path: Path
) -> None:
    canceling = Canceling(backend, tmp_path)
    followed = backend.logs(canceling.ref, LogRequest(follow=True))
    assert next(followed).data == b"up\n"
    canceling.go_on("more")
    canceling.go_on("end")
    assert b"".join(chunk.data for chunk in followed) == b"more\n"
    canceling.join()


def test_a_copy_that_a_client_left_when_it_died_goes_on_at_the_next_cancel(
    backend: KubernetesBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(kept_log, "MOST", 0)
        patched.setattr(kept_log, "close_copy", lambda *_: None)  # as if the client had been killed
        canceling = Canceling(backend, tmp_path)
        until(lambda: "tao-kept-log" not in [thread.name for thread in threading.enumerate()])
    again = threading.Thread(target=canceling.run)
    again.start()
    canceling.go_on("more")
    until(lambda: canceling.copied() == b"up\nmore\n")
    canceling.go_on("end")
    for thread in (canceling, again):
        thread.join()
    assert log_of(backend, canceling.ref) == b"up\nmore\n"
