"""Results in a bucket that pods reach: the example's, and those of several ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kubernetes.kube_files import PYTHON
from support.kubernetes.kube_here import Cluster
from support.servers import link_here, s3_here
from tao_sdk.client import Client
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

pytestmark = pytest.mark.network

EXAMPLE = Path(__file__).parents[3] / "examples" / "digits" / "job.yaml"


@pytest.fixture
def server() -> s3_here.Server:
    return s3_here.versitygw()


@pytest.fixture
def exported(
    surroundings: dict[str, str], cluster: Cluster, server: s3_here.Server
) -> Iterator[dict[str, str]]:
    """The caller's environment with the keys of a store that pods reach."""
    with link_here.Link(server.address, "-raw", listen=f"{cluster.place.here}:0") as line:
        yield {
            **surroundings,
            "ACCESS_KEY": s3_here.ACCESS,
            "SECRET_KEY": s3_here.SECRET,
            "S3_ENDPOINT_URL": f"http://{line.address}",
        }


def keys(server: s3_here.Server, bucket: str) -> set[str]:
    return {each.key for each in server.s3().list(bucket, "")}


def test_the_example_trains_with_the_unchanged_job_file_and_its_results_in_a_bucket(
    exported: dict[str, str], server: s3_here.Server, tmp_path: Path
) -> None:
    bucket = server.bucket()
    words = ["run", str(EXAMPLE), "--platform", "kubernetes", "--image", PYTHON]
    done = subprocess.run(
        [sys.executable, "-m", "tao_sdk.cli.main", *words],
        env={**exported, "S3_BUCKET_NAME": bucket},
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with Client(settings=Settings(exported)) as client:
        job = client.list_jobs()[0]
        kept = f"results/{job.id}/results_dir"
        found = keys(server, bucket)
        checkpoints = [f"{kept}/train/model_epoch_{epoch:03}.npz" for epoch in range(1, 21)]
        assert found.issuperset(checkpoints), found
        told = server.s3().ask("GET", bucket, f"{kept}/metrics.json")
        assert json.loads(told.text)["accuracy"] >= 0.97
        assert client.results(job.id).best is not None
        client.remove(job.id)


def test_each_rank_keeps_its_own_log_and_what_it_alone_wrote_in_the_bucket(
    exported: dict[str, str], server: s3_here.Server
) -> None:
    bucket = server.bucket()
    spec = JobSpec(
        image=PYTHON,
        command="cd $TAO_RESULTS_DIR/out; echo rank $NODE_RANK; echo $NODE_RANK > own.pth",
        gpu_count=0,
        num_nodes=2,
        specs={"out": ""},
        outputs={"out": {"type": "folder"}},
        env_vars={"S3_BUCKET_NAME": bucket},
    )
    with Client(settings=Settings(exported)) as client:
        job = client.submit(spec, "kubernetes").job
        ended = client.wait(job.id, timeout=300)
        assert ended.status is Status.COMPLETE, client.get_job_logs(job.id)
        client.remove(job.id)
    folder = f"results/{job.id}"
    kept = {
        ".tao/job.log": "rank 0\n",
        ".tao/job.rank-1.log": "rank 1\n",
        "out/own.pth": "0\n",
        "out/.rank-1/own.pth": "1\n",
    }
    found = {key: server.s3().ask("GET", bucket, f"{folder}/{key}").text for key in kept}
    assert found == kept, keys(server, bucket)
