"""Inputs from S3 on every backend: what the spec names is there, and the keys are nowhere in the
open.
"""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from pathlib import Path

import pytest

from support.places import Place, pids_of
from support.servers import link_here, s3_here
from support.servers.endpoint_here import called
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

# on SLURM results lie in a shared file system, and data is staged there first
pytestmark = [
    pytest.mark.network,
    pytest.mark.parametrize("place", ["local", "docker", "kubernetes"], indirect=True),
]


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_a_job_reads_a_folder_and_an_object_that_its_spec_names(
    place: Place, tmp_path: Path, secure: bool
) -> None:
    server = s3_here.minio_tls() if secure else s3_here.minio()
    s3, bucket = server.s3(), server.bucket()
    content = os.urandom(9_000_000)
    s3.put(bucket, "data/images/large", content)
    s3.put(bucket, "data/images/a b/small", b"small")
    s3.put(bucket, "data/labels.json", b"{}")
    bundle = tmp_path / "ca.pem"
    bundle.write_bytes((s3_here.authority_here.authority().bundle).read_bytes())
    spec = JobSpec(
        command='i=$(sed -n "s/.*images. *: *.\\([^,}]*\\).[,}].*/\\1/p" {config_path}); '
        'cmp "$i/large" ' + f"{tmp_path}/large" + ' && cat "$i/a b/small"',
        gpu_count=0,
        specs={"images": f"s3://{bucket}/data/images", "labels": f"s3://{bucket}/data/labels.json"},
        inputs={"images": {"type": "folder"}, "labels": {"type": "file"}},
        config_format="json",
        env_vars={"AWS_CA_BUNDLE": str(bundle)},
    )
    (tmp_path / "large").write_bytes(content)
    keys = {
        "ACCESS_KEY": s3_here.ACCESS,
        "SECRET_KEY": s3_here.SECRET,
        "AWS_CA_BUNDLE": str(bundle),
    }
    with place.reach(server.url) as url, place.client(**keys, S3_ENDPOINT_URL=url) as client:
        job = client.submit(spec, place.platform, place.network).job
        ended = client.wait(job.id)
        log = client.get_job_logs(job.id)
        assert (ended.status, log.splitlines()[-1]) == (Status.COMPLETE, "small"), log
        assert client.check_path(f"s3://{bucket}/data/labels.json")
        assert s3_here.SECRET not in log + str(client.get_job(job.id).to_json())


def test_a_runner_killed_and_a_server_stopped_in_mid_download_damage_nothing(
    place: Place, tmp_path: Path
) -> None:
    """The job that comes after goes on from what is complete in their cache, and waits for the
    server to come back.
    """
    server = s3_here.started(s3_here.Server(s3_here.versitygw_command, ready="/healthz"))
    bucket, content, cache = server.bucket(), os.urandom(80_000_000), tmp_path / "cache"
    server.s3().put(bucket, "data/large", content)
    cache.mkdir(mode=0o777)
    ids: list[str] = []

    def kill() -> None:
        for pid in pids_of(ids[0]):
            os.kill(pid, signal.SIGKILL)

    def stop() -> None:
        server.stop()
        threading.Timer(2.0, server.start).start()

    line = link_here.Link(server.address, listen=f"{place.host}:0")
    with line, called(kill) as kills, called(stop) as stops:
        keys = {
            "ACCESS_KEY": s3_here.ACCESS,
            "SECRET_KEY": s3_here.SECRET,
            "S3_ENDPOINT_URL": line.url,
        }
        with place.client(**keys) as client:

            def run(name: str, hook: str, hook_at: int) -> tuple[Status, str]:
                spec = JobSpec(
                    command=f"sha256sum < {tmp_path}/{name}",
                    gpu_count=0,
                    inputs={f"{tmp_path}/{name}": f"s3://{bucket}/data/large"},
                    mount_path=str(cache),
                    env_vars={"GOES": "on"},
                )
                # Every request is refused until the hook is set: no download is ahead of it.
                line.faults(busy=1, methods="GET", match="data/large")
                job = client.submit(spec, place.platform, place.network).job
                ids.append(job.id)
                line.faults(
                    latency_ms=50, methods="GET", match="data/large", hook=hook, hook_at=hook_at
                )
                return client.wait(job.id, timeout=300).status, client.get_job_logs(job.id)

            assert run("first", kills.url, 8)[0] is Status.ERROR
            assert not (tmp_path / "first").exists()
            status, log = run("second", stops.url, 2)
            assert (status, log.split()[0]) == (
                Status.COMPLETE,
                hashlib.sha256(content).hexdigest(),
            ), log
            assert len(kills.asked) == len(stops.asked) == 1
    server.end()
