"""Buckets on the cluster: small inputs from S3, results that go there, and a word about what would
keep GPUs waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.cluster_here import Cluster, until
from support.cluster.cluster_images import PYTHON
from support.servers import s3_here
from tao_sdk.client import Client
from tao_sdk.model.finding import Severity
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

pytestmark = pytest.mark.network

# A checkpoint is rank 0's: one that another rank writes anew while rank 0 sends it for the last
# time is not vouched for.
STEPS = (
    "cd $TAO_RESULTS_DIR/results_dir; [ $NODE_RANK != 0 ] || echo weights > model_epoch_001.pth; "
)


@pytest.fixture
def server() -> s3_here.Server:
    return s3_here.versitygw()


@pytest.fixture
def surroundings(surroundings: dict[str, str], server: s3_here.Server) -> dict[str, str]:
    """Those of a caller who has exported the keys of the store."""
    keys = {
        "ACCESS_KEY": s3_here.ACCESS,
        "SECRET_KEY": s3_here.SECRET,
        "S3_ENDPOINT_URL": server.url,
    }
    return {**surroundings, **keys}


@pytest.fixture
def bucket(server: s3_here.Server) -> Iterator[str]:
    yield server.bucket()


def keys(server: s3_here.Server, bucket: str) -> set[str]:
    return {each.key for each in server.s3().list(bucket, "")}


def training(command: str, bucket: str, **more: object) -> JobSpec:
    """Its one output goes to the bucket."""
    env_vars = {"TAO_RESULTS_ROOT": f"s3://{bucket}/results", "TAO_SYNC_SECONDS": "0.5"}
    return JobSpec(
        image=PYTHON, command=command, gpu_count=0, cpus=1, specs={"results_dir": ""},
        config_format="json",
        outputs={"results_dir": {"type": "folder"}}, env_vars=env_vars, **more,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip


def test_inputs_from_a_bucket_and_results_to_an_address_of_one_pass_through_the_nodes_and_no_key_is_in_the_open(
    client: Client, cluster: Cluster, server: s3_here.Server, bucket: str
) -> None:
    server.s3().put(bucket, "data/images/a b", b"small")
    server.s3().put(bucket, "data/labels.json", b"{}")
    specs = {"images": f"s3://{bucket}/data/images", "labels": f"s3://{bucket}/data/labels.json",
             "out": f"s3://{bucket}/mine"}  # fmt: skip
    show = (
        "import json, sys; d = json.load(open(sys.argv[1])); out = open(d['out'] + '/made.txt', 'w'); "
        "print(open(d['images'] + '/a b').read(), open(d['labels']).read(), file=out)"
    )
    spec = JobSpec(
        image=PYTHON, command=f'python3 -c "{show}" {{config_path}}', gpu_count=0, specs=specs,
        config_format="json",
        inputs={"images": {"type": "folder"}, "labels": {"type": "file"}},
        outputs={"out": {"type": "folder"}},
    )  # fmt: skip
    job = client.submit(spec, "slurm").job
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE, client.get_job_logs(job.id)
    made = client.files("slurm", f"s3://{bucket}/mine").read(f"s3://{bucket}/mine/made.txt")
    assert made == b"small {}\n"
    staged = cluster.path(str(client.get_job(job.id).backend_details["job_dir"]))
    said = [
        path
        for path in staged.rglob("*")
        if path.is_file() and s3_here.SECRET.encode() in path.read_bytes()
    ]
    assert said == []
    assert s3_here.SECRET not in client.get_job_logs(job.id) + cluster.log


def test_results_of_two_nodes_are_in_the_bucket_and_are_seen_and_fetched_from_here(
    client: Client, server: s3_here.Server, bucket: str, tmp_path: Path
) -> None:
    status = """echo '{"epoch": 1, "max_epoch": 1, "kpi": {"loss": 0.5}}' > status.json; """
    command = f"{STEPS}[ $NODE_RANK = 1 ] || {status} echo rank > rank-$NODE_RANK.txt"
    job = client.submit(training(command, bucket, num_nodes=2), "slurm").job
    assert job.results_dir == f"s3://{bucket}/results/{job.id}"
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE, client.get_job_logs(job.id)
    left = client.results(job.id)
    assert left.newest == f"{job.results_dir}/results_dir/model_epoch_001.pth"
    assert left.progress.epoch == 1
    assert left.manifest is not None and left.manifest["whole"] is True
    client.fetch_results(job.id, tmp_path / "here")
    names = {each.name for each in (tmp_path / "here").rglob("*.txt")}
    assert names == {"rank-0.txt", "rank-1.txt"}


def test_results_of_a_job_that_is_canceled_are_kept_and_a_bucket_that_is_not_there_ends_a_job_before_its_command(
    client: Client, server: s3_here.Server, bucket: str
) -> None:
    nowhere = client.submit(training("echo never", "no-such-bucket"), "slurm").job
    job = client.submit(training(f"{STEPS}echo made; sleep 60", bucket), "slurm").job
    until(lambda: "made" in client.get_job_logs(job.id))
    assert client.cancel_job(job.id)
    assert client.get_job(job.id).status is Status.CANCELED
    assert {
        f"results/{job.id}/results_dir/model_epoch_001.pth",
        f"results/{job.id}/.tao/job.log",
    } <= keys(server, bucket)
    assert client.wait(nowhere.id, timeout=300).status is Status.ERROR
    assert "never" not in client.get_job_logs(nowhere.id)
    found = client.diagnose(nowhere.id)
    assert found is not None and "no-such-bucket" in found.cause


@pytest.mark.parametrize(
    ("limit", "about", "warned"),
    [
        ("0.001", {}, True),
        ("0.003", {}, False),
        ("", {}, False),
        ("0", {}, False),
        ("0.001", {"patterns": ["*.json"]}, False),
    ],
)
def test_inputs_in_a_bucket_above_a_limit_are_a_warning_with_what_to_do(
    limit: str,
    about: dict[str, object],
    warned: bool,
    surroundings: dict[str, str],
    server: s3_here.Server,
    bucket: str,
) -> None:
    for name in ("1.jpg", "2.jpg"):
        server.s3().put(bucket, f"images/{name}", bytes(1_000_000))
    given = {"type": "folder", **about}
    spec = JobSpec(
        image=PYTHON,
        command="true",
        gpu_count=1,
        specs={"data": f"s3://{bucket}/images"},
        inputs={"data": given},
    )
    settings = Settings({**surroundings, "SLURM_S3_WARN_GB": limit})
    with Client(settings=settings) as client:
        told = [
            each
            for each in client.plan(spec, "slurm").findings
            if each.code == "input.fetched_on_gpus"
        ]
    assert [each.severity for each in told] == ([Severity.WARNING] if warned else [])
    if warned:
        assert "data: at least 2.0 MB will be fetched while the job holds its GPUs" in told[0].what
        assert "Idle GPUs are billed" in told[0].evidence
        assert "file system that the nodes share" in told[0].fix
