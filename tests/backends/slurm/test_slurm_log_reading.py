"""The logs of jobs on a real cluster: of every rank, and through a lost connection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.cluster_here import Cluster
from support.cluster.slurm_jobs import (
    backend_of,
    folder,
    known_client,
    submit,
    until_ended,
)
from tao_sdk.backends.contract import LogRequest
from tao_sdk.client import Client
from tao_sdk.model.errors import PathNotFound


@pytest.fixture
def client(cluster: Cluster, tmp_path: Path) -> Iterator[Client]:
    yield from known_client(cluster, tmp_path)


# Logs, files, clearing away


def test_a_log_is_followed_through_a_lost_connection_without_loss_or_repeat(
    cluster: Cluster, client: Client
) -> None:
    made = submit(
        client,
        "echo line 1; until [ -e go ]; do sleep 0.1; done; for i in $(seq "
        "2 30); do echo line $i; done",
    )
    got, go = b"", cluster.path(made.results_dir) / "go"
    for data in client.follow_logs(made.id):
        got += data
        if not go.exists():
            cluster.drop_connections()
            go.touch()
    assert got == b"".join(b"line %d\n" % n for n in range(1, 31))


def test_both_streams_of_every_rank_can_be_read(cluster: Cluster, client: Client) -> None:
    made = submit(client, "echo out $NODE_RANK; echo err $NODE_RANK >&2", num_nodes=2)
    until_ended(client, made)
    read = {
        (rank, stream): b"".join(
            client.follow_logs(made.id, rank=rank, stream=stream, follow=False)
        )
        for rank in (0, 1)
        for stream in ("stdout", "stderr")
    }
    assert read == {
        (0, "stdout"): b"out 0\n",
        (0, "stderr"): b"err 0\n",
        (1, "stdout"): b"out 1\n",
        (1, "stderr"): b"err 1\n",
    }
    assert client.get_job_logs(made.id, rank=0) == "out 0\nerr 0\n"


def test_the_log_of_a_job_of_two_nodes_holds_every_rank(cluster: Cluster, client: Client) -> None:
    made = submit(client, "echo first $NODE_RANK; sleep 1; echo last $NODE_RANK", num_nodes=2)
    followed = b"".join(client.follow_logs(made.id)).decode().splitlines()
    of: dict[str, list[str]] = {"0": [], "1": []}
    rank = "0"
    for line in followed:
        if line.startswith("==> rank "):
            assert line != f"==> rank {rank} <=="
            rank = line.split()[2]
        else:
            of[rank].append(line)
    assert of == {"0": ["first 0", "last 0"], "1": ["first 1", "last 1"]}
    assert client.get_job_logs(made.id) == "first 0\nlast 0\n==> rank 1 <==\nfirst 1\nlast 1\n"
    assert client.get_job_logs(made.id, tail=1) == "last 0\n==> rank 1 <==\nlast 1\n"
    assert client.get_job_logs(made.id, tail=0) == ""
    assert client.get_job_logs(made.id, rank=1) == "first 1\nlast 1\n"


def test_a_rank_that_has_said_nothing_adds_nothing_to_the_log(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "[ $NODE_RANK = 0 ] || printf 'no newline'", num_nodes=2)
    until_ended(client, made)
    assert client.get_job_logs(made.id) == "==> rank 1 <==\nno newline"


def test_the_log_of_a_released_attempt_is_gone_and_its_results_stay(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "echo kept > result.txt; echo out")
    until_ended(client, made)
    ref = client.engine.ref_of(made)
    assert ref is not None
    client.remove(made.id)
    assert not folder(cluster, made).exists()
    assert (cluster.path(made.results_dir) / "result.txt").read_text() == "kept\n"
    with pytest.raises(PathNotFound):
        list(backend_of(client).logs(ref, LogRequest()))
    backend_of(client).release(ref)
