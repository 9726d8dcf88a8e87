"""Inputs from S3 on every backend: what the spec names is there, and the keys are nowhere in the open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import s3_here
from places import Place

from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

# on a cluster results lie in its shared file system, and data is staged there first
pytestmark = pytest.mark.parametrize("place", ["local", "docker"], indirect=True)


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_a_job_reads_a_folder_and_an_object_that_its_spec_names(place: Place, tmp_path: Path, secure: bool) -> None:
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
        "S3_ENDPOINT_URL": server.url,
        "AWS_CA_BUNDLE": str(bundle),
    }
    with place.client(**keys) as client:
        options = {"network": "host"} if place.platform == "docker" else {}
        job = client.submit(spec, place.platform, options).job
        ended = client.wait(job.id)
        log = client.get_job_logs(job.id)
        assert (ended.status, log.splitlines()[-1]) == (Status.COMPLETE, "small"), log
        assert client.check_path(f"s3://{bucket}/data/labels.json")
        assert s3_here.SECRET not in log + str(client.get_job(job.id).to_json())
