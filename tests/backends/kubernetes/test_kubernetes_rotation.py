"""Logs that the cluster rotates, and logs whose pods it deletes: what was read of them is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kubernetes import kube_here
from support.kubernetes.kube_files import Shape
from support.kubernetes.kube_here import Cluster, namespaced
from support.waiting import until
from tao_sdk.backends.kubernetes.pods import logs
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

PYTHON = "tests.local/python:1"
FIRST, SECOND = 12_000, 3_000  # lines; the first are more than a file of the log, the second less
FILE = Shape(log_max_size="512Ki")
PROGRAM = """\
import os, sys, time
time.sleep(3)
number = 0
for count in {counts}:
    for _ in range(count):
        print("line", number, "x" * 40)
        number += 1
    sys.stdout.flush()
    while not os.path.exists({gate!r} + str(number)):
        time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def small_files() -> Iterator[Cluster]:
    """A cluster that rotates logs early."""
    with kube_here.shaped(FILE) as cluster:
        cluster.has_python_image()
        yield cluster


def client_of(cluster: Cluster, folder: Path) -> Client:
    kubeconfig = cluster.write_kubeconfig(folder / "kubeconfig")
    surroundings = {
        "KUBECONFIG": str(kubeconfig),
        "TAO_SDK_STATE_DIR": str(folder / "state"),
        "HOME": str(folder),
        "PATH": "/usr/bin:/bin",
    }
    return Client(settings=Settings(surroundings))


def start_loud(client: Client, folder: Path, counts: list[int]) -> Job:
    """A job that prints so many lines, and the next once the file `gate<lines so far>` is there."""
    program = folder / "loud.py"
    program.write_text(PROGRAM.format(counts=counts, gate=f"{folder}/gate"))
    spec = JobSpec(
        image=PYTHON, command=f"python3 {program}", gpu_count=0, mounts=[f"{folder}:{folder}"]
    )
    return client.submit(spec, "kubernetes").job


def served(cluster: Cluster, job: Job) -> bytes:
    """What the API answers for the log of the job's pod."""
    pods = f"{namespaced('default')}/pods"
    found = cluster.api.get(f"{pods}?labelSelector=tao-sdk-job-id={job.id}")["items"]
    return cluster.api.read(f"{pods}/{found[0]['metadata']['name']}/log") if found else b""


def numbers(log: bytes) -> list[int]:
    return [int(line.split()[1]) for line in log.splitlines() if line.startswith(b"line ")]


def log_of(client: Client, job: Job) -> bytes:
    return b"".join(client.follow_logs(job.id, follow=False))


def tail_of(client: Client, job: Job, lines: int) -> bytes:
    return b"".join(client.follow_logs(job.id, follow=False, tail=lines))


def until_rotated(cluster: Cluster, job: Job) -> None:
    cluster.wait_for(lambda: served(cluster, job).startswith(b"line 0 "))
    cluster.wait_for(lambda: not served(cluster, job).startswith(b"line 0 "))


@pytest.mark.kubernetes
def test_what_was_read_before_a_rotation_is_kept_and_comes_first(
    small_files: Cluster, tmp_path: Path
) -> None:
    read, unread, last = 3000, 3500, 1000  # lines; the first two are more than a file
    ending = list(range(read + unread, read + unread + last))
    with client_of(small_files, tmp_path) as client:
        job = start_loud(client, tmp_path, [read, unread, last])
        until(lambda: client.get_job(job.id) and numbers(kept_copy(client, job))[-1:] == [read - 1])
        (tmp_path / f"gate{read}").touch()
        until_rotated(small_files, job)
        print_last(small_files, tmp_path, job, read + unread, last)
        before, told, after = log_of(client, job).partition(logs.ROTATED)
        assert told and numbers(before) == list(range(read))
        assert numbers(after)[-last:] == ending
        tail = tail_of(client, job, after.count(b"\n") + 11)
        assert tail.partition(logs.ROTATED)[2] == after
        assert numbers(tail)[:10] == list(range(read))[-10:]
        client.cancel_job(job.id, grace=1)
        found = numbers(log_of(client, job))
        assert found == [*range(read), *numbers(after)]
        client.remove(job.id)


def print_last(cluster: Cluster, folder: Path, job: Job, printed: int, more: int) -> None:
    """Let the job print its last lines, and wait until they are served."""
    (folder / f"gate{printed}").touch()
    last = b"line %d " % (printed + more - 1)
    cluster.wait_for(lambda: last in served(cluster, job))


def kept_copy(client: Client, job: Job) -> bytes:
    copies, attempt = client.store.log_copies, client.store.attempt(job.id).attempt
    return copies.read(attempt, 0, 1 << 30)


@pytest.mark.kubernetes
def test_a_long_log_whose_start_nobody_has_read_says_that_it_may_be_missing(
    small_files: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LATE_SECONDS", 1.0)
    with client_of(small_files, tmp_path) as client:
        job = start_loud(client, tmp_path, [FIRST, SECOND])
        until_rotated(small_files, job)
        print_last(small_files, tmp_path, job, FIRST, SECOND)
        told, _, rest = log_of(client, job).partition(b"\n")
        assert told.startswith(b"tao: this log begins ")
        assert numbers(rest)[-SECOND:] == list(range(FIRST, FIRST + SECOND))
        client.cancel_job(job.id, grace=1)
        client.remove(job.id)


def test_a_watcher_keeps_the_logs_of_ranks_whose_pods_go_when_another_fails(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    with Client(settings=Settings(surroundings), watch=True, poll_interval=1) as client:
        command = (
            f"echo said by $NODE_RANK; until [ -e {tmp_path}/go ]; do sleep 0.2; done; "
            "[ $NODE_RANK = 1 ] && exit 5; sleep 300"
        )
        spec = JobSpec(
            image=PYTHON,
            command=command,
            gpu_count=0,
            num_nodes=2,
            mounts=[f"{tmp_path}:{tmp_path}"],
        )
        job = client.submit(spec, "kubernetes").job
        attempt = client.store.attempt(job.id).attempt
        copies = client.store.log_copies
        until(lambda: all(copies.size(attempt, rank) for rank in (0, 1)))
        (tmp_path / "go").touch()
        assert client.wait(job.id, timeout=300).status is Status.ERROR
        lines = log_of(client, job).decode().splitlines()
        headers = [line for line in lines if line.startswith("==> ")]
        assert [line.split()[2] for line in headers] == ["0", "1"]
        assert [line for line in lines if line.startswith("said")] == ["said by 0", "said by 1"]
        client.remove(job.id)


def test_the_log_of_two_ranks_has_a_line_with_pod_and_node_before_each(
    surroundings: dict[str, str],
) -> None:
    with Client(settings=Settings(surroundings)) as client:
        spec = JobSpec(image=PYTHON, command="echo of $NODE_RANK", gpu_count=0, num_nodes=2)
        job = client.submit(spec, "kubernetes").job
        assert client.wait(job.id, timeout=300).status is Status.COMPLETE
        lines = log_of(client, job).decode().splitlines()
        assert lines[1::2] == ["of 0", "of 1"]
        for rank, line in enumerate(lines[::2]):
            assert line.startswith(f"==> rank {rank} (tao-job-{job.id}-{rank}-")
            assert line.endswith(", real-node) <==")
        client.remove(job.id)
