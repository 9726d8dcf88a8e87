"""Before a job is submitted its inputs in S3 are looked at from here."""

from __future__ import annotations

import pytest
import s3_here

from tao_sdk.client import Client
from tao_sdk.model.errors import Refused
from tao_sdk.model.finding import Severity
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec

KEYS = {"ACCESS_KEY": s3_here.ACCESS, "SECRET_KEY": s3_here.SECRET}


@pytest.fixture
def client(tmp_path):
    environ = {
        **KEYS,
        "S3_ENDPOINT_URL": s3_here.minio().url,
        "TAO_SDK_STATE_DIR": str(tmp_path),
        "HOME": str(tmp_path),
    }
    with Client(settings=Settings({**environ, "PATH": "/usr/bin:/bin"})) as client:
        yield client


@pytest.fixture
def bucket():
    name = s3_here.minio().bucket()
    s3_here.minio().s3().put(name, "data/a", b"x")
    return name


def reading(uri, **env_vars):
    return JobSpec(command="true", gpu_count=0, inputs={"/nowhere/x": uri}, env_vars=env_vars)


@pytest.mark.parametrize("path", ["data", "data/", "data/a", ""])
def test_nothing_is_said_of_inputs_that_are_there(client, bucket, path):
    assert not [
        each for each in client.plan(reading(f"s3://{bucket}/{path}"), "local").findings if "input" in each.what
    ]


@pytest.mark.parametrize(
    ("path", "env", "code"),
    [
        ("data/gone", {}, "input.nothing"),
        ("data/a/", {}, "input.nothing"),
        ("data/a", {"AWS_SECRET_ACCESS_KEY": "wrong-secret-here"}, "s3.wrong_secret"),
    ],
)
def test_a_job_that_cannot_have_its_input_is_not_submitted(client, bucket, path, env, code):
    with pytest.raises(Refused) as error:
        client.submit(reading(f"s3://{bucket}/{path}", **env), "local")
    assert error.value.code == code
    assert "wrong-secret-here" not in str(error.value)
    assert client.list_jobs() == []


def test_a_store_that_only_the_job_may_reach_is_a_warning(client, bucket):
    elsewhere = f"http://127.0.0.1:{s3_here.free_port()}"
    found = client.plan(reading(f"s3://{bucket}/data", AWS_ENDPOINT_URL=elsewhere), "local").findings
    assert [(each.severity, each.code) for each in found if each.code == "web.refused"] == [
        (Severity.WARNING, "web.refused")
    ]


def test_without_keys_a_job_that_runs_here_is_refused(client, bucket, tmp_path):
    here = {"S3_ENDPOINT_URL": s3_here.minio().url, "AWS_EC2_METADATA_DISABLED": "true"}
    environ = {**here, "TAO_SDK_STATE_DIR": str(tmp_path / "other"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    with Client(settings=Settings(environ)) as without, pytest.raises(Refused) as error:
        without.submit(reading(f"s3://{bucket}/data"), "local")
    assert error.value.code == "s3.no_credentials"
