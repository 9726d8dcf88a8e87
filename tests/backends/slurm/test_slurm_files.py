"""Paths and results on a real cluster, as its login node sees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.cluster_here import Cluster
from support.cluster.slurm_jobs import (
    backend_of,
    known_client,
    submit,
    until_ended,
)
from tao_sdk.backends.below import LeadsOut
from tao_sdk.client import Client
from tao_sdk.model.errors import PathNotFound


@pytest.fixture
def client(cluster: Cluster, tmp_path: Path) -> Iterator[Client]:
    yield from known_client(cluster, tmp_path)


def test_paths_are_looked_at_as_the_cluster_sees_them(cluster: Cluster, client: Client) -> None:
    base = cluster.surroundings()["SLURM_BASE_RESULTS_DIR"]
    here = cluster.path(base) / "odd 'name' ü"
    here.mkdir(exist_ok=True)
    (here / "file\twith tab").write_bytes(b"\0one\ntwo")
    there = f"{base}/{here.name}"
    for scheme in ("", "lustre://", "slurm://"):
        assert client.check_path(f"{scheme}{there}", "slurm") is True
    assert client.check_path(f"lustre://{base}/nothing", "slurm") is False
    assert client.list_path(f"lustre://{there}", "slurm") == ["file\twith tab"]
    files = client.files("slurm")
    assert files.read(f"{there}/file\twith tab") == b"\0one\ntwo"
    assert files.read(f"{there}/file\twith tab", 2, 3) == b"ne\n"
    assert (files.stat(there).is_dir, files.stat(f"{there}/file\twith tab").size) == (True, 8)
    with pytest.raises(PathNotFound):
        files.read(f"{base}/nothing")


def test_results_are_found_and_copied_here(
    cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    made = submit(
        client,
        "mkdir train; head -c 3000000 /dev/urandom > train/model.pth; echo done > train/log.txt",
    )
    until_ended(client, made)
    assert made.results_dir.endswith(f"/results/{made.id}")
    copied = client.fetch_results(made.id, tmp_path / "copy")
    assert sorted(path.name for path in copied) == ["log.txt", "model.pth"]
    theirs = cluster.path(made.results_dir) / "train" / "model.pth"
    assert (tmp_path / "copy" / "train" / "model.pth").read_bytes() == theirs.read_bytes()


LINKS = """
mkdir -p in/deep; echo mine > in/deep/file; echo private > "$TAO_RESULTS_DIR/../private.txt"
ln -s in/deep/file inner; ln -s in folder; ln -s "$TAO_RESULTS_DIR/../private.txt" out; ln -s .. above; ln -s nowhere dangling
ln -s loop loop; mkfifo pipe; mkdir -p .tao; rm -f .tao/manifest.json
"""


def test_no_link_is_followed_out_of_the_results_and_no_pipe_is_read(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, LINKS)
    until_ended(client, made)
    results = made.results_dir
    (cluster.path(results) / "odd 'name'\n").write_text("odd")
    files = backend_of(client).files().below(results)
    assert files.read(f"{results}/inner") == files.read(f"{results}/folder/deep/file") == b"mine\n"
    assert files.read(f"{results}/odd 'name'\n", 1, 1) == b"d"
    for path in (
        "out",
        "above",
        "above/private.txt",
        "in/../../private.txt",
        "folder/../../private.txt",
    ):
        for verb in (files.stat, files.list, files.read):
            with pytest.raises(LeadsOut):
                verb(f"{results}/{path}")
    with pytest.raises(LeadsOut):
        files.read(f"{results}/../private.txt")
    with pytest.raises(LeadsOut):
        files.read(f"{Path(results).parent}/private.txt")
    for path, error in (
        ("pipe", "a pipe"),
        ("in", "a folder"),
        ("loop", "nothing"),
        ("dangling", "nothing"),
    ):
        with pytest.raises(PathNotFound, match=error):
            files.read(f"{results}/{path}")
    with pytest.raises(PathNotFound, match="a pipe"):
        client.files("slurm").read(f"{results}/pipe")
    seen = {Path(each.path).name: (each.is_dir, each.leads_to) for each in files.list(results)}
    assert seen["folder"] == (True, f"{results}/in")
    assert seen["in"] == (True, "")
    assert all(
        seen[name] == (False, "")
        for name in ("inner", "out", "above", "dangling", "loop", "pipe", "odd 'name'\n")
    )
    found = {str(Path(each.path).relative_to(results)) for each in client.results(made.id).files}
    assert {"in/deep/file", "folder/deep/file", "out", "above", "pipe"} <= found
    assert not any("private.txt" in path for path in found)


def test_results_that_were_replaced_by_a_link_are_not_looked_at(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "true")
    until_ended(client, made)
    here = cluster.path(made.results_dir)
    here.rename(here.with_name("moved"))
    here.symlink_to("moved")
    with pytest.raises(LeadsOut):
        backend_of(client).files().below(made.results_dir).list(made.results_dir)
