"""A model by its name on a cluster: a further job finds its parent's checkpoint, on a claim and in a
bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kubernetes.kube_claims import make_claim
from support.kubernetes.kube_files import PYTHON
from support.kubernetes.kube_here import Cluster
from support.servers import link_here, s3_here
from support.tao_command import run_tao_here

TRAIN = ("--model", "digits", "--action", "train", "--set", "num_epochs=2", "--image", PYTHON)
EVALUATE = ("--model", "digits", "--action", "evaluate", "--checkpoint", "epoch:2")


@pytest.fixture
def claim(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[str]:
    """The name of a claim of the test's namespace."""
    folder = tmp_path / "volume"
    folder.mkdir()
    make_claim(cluster, namespace, "runs", folder)
    yield "runs"
    cluster.api.delete(f"/api/v1/persistentvolumes/{namespace}-runs")


def chain_prints_the_accuracy(env: dict[str, str], folder: Path, *flags: str) -> None:
    """Trained, then evaluated by the parent's name alone."""
    on_the_cluster = ("--platform", "kubernetes", "--name", "learn", *flags)
    trained = run_tao_here(env, folder, "run", *TRAIN, *on_the_cluster)
    assert trained.code == 0, trained
    tested = run_tao_here(env, folder, "run", *EVALUATE, "--image", PYTHON, "--parent", "learn")
    assert tested.code == 0, tested
    assert "accuracy 0.9" in tested.out


def test_a_model_is_evaluated_from_its_trainings_claim(
    surroundings: dict[str, str], claim: str, tmp_path: Path
) -> None:
    mount = f"pvc://{claim}/digits:/results"
    chain_prints_the_accuracy(surroundings, tmp_path, "--mounts", mount)


@pytest.mark.network
def test_a_model_is_evaluated_from_its_trainings_bucket(
    surroundings: dict[str, str], cluster: Cluster, tmp_path: Path
) -> None:
    server = s3_here.versitygw()
    with link_here.Link(server.address, "-raw", listen=f"{cluster.place.here}:0") as line:
        keys = {"ACCESS_KEY": s3_here.ACCESS, "SECRET_KEY": s3_here.SECRET}
        address = {"S3_ENDPOINT_URL": f"http://{line.address}", "S3_BUCKET_NAME": server.bucket()}
        chain_prints_the_accuracy({**surroundings, **keys, **address}, tmp_path)
