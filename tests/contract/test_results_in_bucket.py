"""Results in a bucket on every backend: kept whatever happens, seen from here, and their keys
nowhere in the open.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from support.ended_jobs import ending_jobs
from support.places import Place, until_it_runs
from support.servers import link_here, s3_here
from tao_sdk.client import Client
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

# on SLURM results lie in a shared file system, and data is staged there first
pytestmark = [
    pytest.mark.network,
    pytest.mark.parametrize("place", ["local", "docker", "kubernetes"], indirect=True),
]


@pytest.fixture
def server() -> s3_here.Server:
    return s3_here.versitygw()


@pytest.fixture
def exported(place: Place, server: s3_here.Server) -> Iterator[dict[str, str]]:
    """The keys of the store, as its user exports them."""
    with place.reach(server.url) as url:
        yield {
            "ACCESS_KEY": s3_here.ACCESS,
            "SECRET_KEY": s3_here.SECRET,
            "S3_ENDPOINT_URL": url,
        }


@pytest.fixture
def client(place: Place, exported: dict[str, str]) -> Iterator[Client]:
    yield from ending_jobs(place.client(**exported), grace=0.5)


def submit(
    client: Client,
    place: Place,
    bucket: str,
    command: str,
    env: dict[str, str] | None = None,
    **more: object,
) -> Job:
    """A job whose results go to the bucket, and whose command starts in the one
    output that it has.
    """
    named = (
        {"S3_BUCKET_NAME": bucket}
        if place.platform == "docker"
        else {"TAO_RESULTS_ROOT": f"s3://{bucket}/results"}
    )
    spec = JobSpec(
        command=f"cd $TAO_RESULTS_DIR/results_dir; {command}",
        gpu_count=0,
        specs={"results_dir": ""},
        outputs={"results_dir": {"type": "folder"}},
        config_format="json",
        env_vars={"TAO_SYNC_SECONDS": "0.5", **named, **(env or {})},
        **more,  # pyright: ignore[reportArgumentType]
    )
    return client.submit(spec, place.platform, place.network).job


def keys(server: s3_here.Server, bucket: str) -> set[str]:
    return {each.key for each in server.s3().list(bucket, "")}


TRAINS = (
    "for e in 1 2 3; do echo weights $e > model_epoch_00$e.pth; "
    """echo '{"epoch": '$e', "max_epoch": 3, "kpi": {"loss": 0.'$((9 - e))'}}' >> status.json; done; echo trained"""
)


def test_results_are_in_the_bucket_and_are_seen_and_fetched_from_here(
    client: Client, place: Place, server: s3_here.Server, tmp_path: Path
) -> None:
    bucket = server.bucket()
    job = submit(client, place, bucket, TRAINS)
    assert job.results_dir == f"s3://{bucket}/results/{job.id}"
    assert client.wait(job.id, timeout=300).status == "Complete", client.get_job_logs(job.id)
    assert client.get_job_results_dir(job.id) == job.results_dir
    left = client.results(job.id)
    assert left.newest == f"{job.results_dir}/results_dir/model_epoch_003.pth"
    assert left.progress.epoch == 3  # told by the status.json in the bucket alone
    assert left.manifest is not None and left.manifest["whole"] is True
    told: list[str] = []
    paths = client.fetch_results(
        job.id, tmp_path / "here", on_file=lambda name, size: told.append(name)
    )
    assert (tmp_path / "here" / "results_dir" / "model_epoch_002.pth").read_text() == "weights 2\n"
    assert len(told) == len(paths) == len(left.files)
    assert client.check_path(f"{job.results_dir}/results_dir/status.json")
    assert not client.check_path(f"{job.results_dir}/results_dir/nothing")
    assert client.list_path(f"{job.results_dir}/results_dir") == [
        "model_epoch_001.pth", "model_epoch_002.pth", "model_epoch_003.pth", "status.json",
    ]  # fmt: skip


def test_results_of_a_job_that_is_canceled_while_it_sends_are_kept(
    client: Client, place: Place, server: s3_here.Server
) -> None:
    bucket = server.bucket()
    job = submit(
        client,
        place,
        bucket,
        "echo 1 > first.pth; head -c 20000000 /dev/urandom > large.pth; echo made; sleep 60",
    )
    until_it_runs(client, job, b"made")
    assert client.cancel_job(job.id, grace=10)
    assert client.get_job(job.id).status is Status.CANCELED
    below = f"results/{job.id}"
    assert {
        f"{below}/results_dir/first.pth",
        f"{below}/results_dir/large.pth",
        f"{below}/.tao/job.log",
    } <= keys(server, bucket)
    assert client.results(job.id).manifest["whole"] is True  # pyright: ignore[reportOptionalSubscript]


def test_results_of_a_job_that_reaches_its_time_limit_are_kept(
    client: Client, place: Place, server: s3_here.Server
) -> None:
    bucket = server.bucket()
    job = submit(
        client, place, bucket, "echo 1 > first.pth; sleep 60", time_limit=timedelta(seconds=5)
    )
    assert client.wait(job.id, timeout=300).status == "Error"
    assert f"results/{job.id}/results_dir/first.pth" in keys(server, bucket)


def test_a_bucket_that_does_not_exist_is_told_before_the_command_starts(
    client: Client, place: Place, server: s3_here.Server
) -> None:
    job = submit(client, place, "no-such-bucket", "echo never")
    assert client.wait(job.id, timeout=300).status == "Error"
    assert "never" not in client.get_job_logs(job.id)
    diagnosis = client.diagnose(job.id)
    assert diagnosis is not None
    assert "no-such-bucket" in diagnosis.cause
    assert "create" in diagnosis.cause + diagnosis.suggestion


def test_the_end_of_a_job_that_nobody_saw_is_told_by_its_manifest_in_the_bucket(
    client: Client, place: Place, server: s3_here.Server
) -> None:
    if place.inherits:
        pytest.skip("a local job's end is always recorded on this machine")
    bucket = server.bucket()
    job = submit(client, place, bucket, "echo 1 > x")
    while f"results/{job.id}/.tao/manifest.json" not in keys(server, bucket) or not whole(
        client, job
    ):
        time.sleep(0.05)
    row = client.store.attempt(job.id)
    assert row.ref is not None
    client.engine.backend(place.platform).release(row.ref)  # as somebody does who tidies up
    assert client.wait(job.id, timeout=300).status == "Complete"


def whole(client: Client, job: Job) -> bool:
    data = client.files("local", job.results_dir).read(f"{job.results_dir}/.tao/manifest.json")
    return json.loads(data)["whole"]


def test_a_bucket_that_is_not_there_is_no_missing_path(client: Client) -> None:
    with pytest.raises(Unreachable, match="no-such-bucket"):
        client.check_path("s3://no-such-bucket/x")
    with pytest.raises(Unreachable, match="no-such-bucket"):
        client.list_path("s3://no-such-bucket/x")


def test_results_that_cannot_be_sent_at_the_end_make_the_job_an_error(
    client: Client, place: Place, server: s3_here.Server, tmp_path: Path
) -> None:
    bucket, go = server.bucket(), tmp_path / "go"
    with link_here.Link(server.address, listen=f"{place.host}:0") as line:
        env = {"AWS_ENDPOINT_URL": line.url, "TAO_RETRY_SECONDS": "1", "TAO_SYNC_SECONDS": "60"}
        job = submit(
            client,
            place,
            bucket,
            f"echo 1 > x; echo made; until [ -e {go} ]; do sleep 0.1; done",
            env,
        )
        until_it_runs(client, job, b"made")
        line.process.kill()
        go.touch()
        assert client.wait(job.id, timeout=300).status == "Error"
    diagnosis = client.diagnose(job.id)
    assert diagnosis is not None
    assert "could not be sent" in diagnosis.cause


def test_a_further_attempt_goes_on_from_the_checkpoint_in_the_bucket(
    place: Place, server: s3_here.Server, exported: dict[str, str], tmp_path: Path
) -> None:
    bucket, go = server.bucket(), tmp_path / "go"
    above = "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat) $PPID"  # the supervisor and the runner
    # on the host's network the node's name is the host's
    named = "'tao-job-' + os.environ['TAO_JOB_ID']"
    fails = (
        above
        if place.platform == "local"
        else place.fails_by_infrastructure.replace("os.uname().nodename", named)
    )
    command = (
        "cat $TAO_RESULTS_DIR/spec.json; [ $TAO_ATTEMPT = 1 ] || exit 0; echo one > epoch_1.pth; "
        f"touch -d '1 hour ago' epoch_1.pth; until [ -e {go} ]; do sleep 0.1; done; {fails}"
    )
    specs = {"train": {"resume_training_checkpoint_path": ""}, "results_dir": ""}
    with place.client(watch=True, **exported) as client:
        spec = JobSpec(
            command=f"cd $TAO_RESULTS_DIR/results_dir; {command}",
            gpu_count=0,
            specs=specs,
            outputs={"results_dir": {"type": "folder"}},
            config_format="json",
            retries=1,
            env_vars={"TAO_SYNC_SECONDS": "0.3", "TAO_RESULTS_ROOT": f"s3://{bucket}/results"},
        )
        job = client.submit(spec, place.platform, place.network).job
        while f"results/{job.id}/results_dir/epoch_1.pth" not in keys(server, bucket):
            time.sleep(0.05)
        go.touch()
        assert client.wait(job.id, timeout=300).status == "Complete", client.get_job_logs(job.id)
        assert client.get_job(job.id).attempt == 2
        assert "results_dir/epoch_1.pth" in client.get_job_logs(job.id)
    assert f"results/{job.id}/.tao/job.log.attempt-1" in keys(server, bucket)


def test_the_keys_are_nowhere_in_the_open(
    client: Client, place: Place, server: s3_here.Server, tmp_path: Path
) -> None:
    bucket = server.bucket()
    job = submit(client, place, bucket, "echo 1 > x; sleep 1")
    until_it_runs(client, job)
    found = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and s3_here.SECRET.encode() in path.read_bytes()
    ]
    assert all(path.stat().st_mode & 0o077 == 0 for path in found), found
    assert s3_here.SECRET not in json.dumps(client.get_job(job.id, look=False).to_json())
    for process in Path("/proc").iterdir():
        try:
            arguments = (process / "cmdline").read_bytes()
        except OSError:
            continue
        assert s3_here.SECRET.encode() not in arguments or b"versitygw" in arguments
    assert client.wait(job.id, timeout=300).status == "Complete"
    for key in keys(server, bucket):
        assert s3_here.SECRET.encode() not in client.files("local", f"s3://{bucket}").read(
            f"s3://{bucket}/{key}"
        )
