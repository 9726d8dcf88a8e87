"""What a job is told of its S3 store is checked before anything is stored, and told by the name
that the caller gave it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_sdk.client import Client
from tao_sdk.model.errors import CredentialError, SpecError
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec

STORE = {
    "ACCESS_KEY": "key",
    "SECRET_KEY": "hunter2/+=",
    "S3_BUCKET_NAME": "acme-data",
    "S3_ENDPOINT_URL": "http://127.0.0.1:9000",
    "CLOUD_REGION": "us-east-1",
}
WRONG = [
    ("S3_BUCKET_NAME", "acme data", SpecError),
    ("S3_BUCKET_NAME", "acme-data\n", SpecError),
    ("S3_BUCKET_NAME", "ab", SpecError),
    ("S3_BUCKET_NAME", "acme/../data", SpecError),
    ("S3_BUCKET_NAME", "s3://acme-data", SpecError),
    ("S3_ENDPOINT_URL", "http://h:notaport", SpecError),
    ("S3_ENDPOINT_URL", "http://h:99999", SpecError),
    ("S3_ENDPOINT_URL", "http://h:0", SpecError),
    ("S3_ENDPOINT_URL", "http://", SpecError),
    ("S3_ENDPOINT_URL", "h:9000", SpecError),
    ("S3_ENDPOINT_URL", "ftp://h", SpecError),
    ("S3_ENDPOINT_URL", "http://[::1", SpecError),
    ("S3_ENDPOINT_URL", "http://h\r\nx-evil: 1", SpecError),
    ("S3_ENDPOINT_URL", "http://h h", SpecError),
    ("CLOUD_REGION", "us-east-1\n", SpecError),
    ("CLOUD_REGION", "us east", SpecError),
    ("ACCESS_KEY", "key\n", CredentialError),
    ("ACCESS_KEY", "k\x00ey", CredentialError),
    ("SECRET_KEY", "hunter2\r\nx-evil: 1", CredentialError),
    ("SECRET_KEY", "hunter2\x1b", CredentialError),
]


def client_with(tmp_path: Path, **environ: str) -> Client:
    known = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
    }
    return Client(settings=Settings({**known, **environ}))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value", "error"), WRONG)
def test_what_no_store_can_have_is_refused_by_its_name(
    tmp_path: Path, name: str, value: str, error: type[Exception]
):
    with client_with(tmp_path, **{**STORE, name: value}) as client:
        with pytest.raises(error) as told:
            client.submit(JobSpec(command="true", gpu_count=0), "local")
        assert client.list_jobs() == []
    assert name in str(told.value)
    assert "hunter2" not in str(told.value)
    assert str(told.value).isprintable()


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("AWS_ENDPOINT_URL", "http://h:notaport", SpecError),
        ("AWS_SECRET_ACCESS_KEY", "hunter2\n", CredentialError),
        ("AWS_REGION", "us\teast", SpecError),
        ("S3_BUCKET_NAME", "a b c", SpecError),
    ],
)
def test_what_a_job_says_of_its_own_store_is_refused_likewise(
    tmp_path: Path, name: str, value: str, error: type[Exception]
):
    env_vars = {"S3_BUCKET_NAME": "acme-data", name: value}
    with client_with(tmp_path) as client, pytest.raises(error, match=name) as told:
        client.submit(JobSpec(command="true", gpu_count=0, env_vars=env_vars), "local")
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    "endpoint",
    ["https://store", "http://[::1]:9000", "HTTPS://s3.example.com/base/", "http://me:pw@h:1"],
)
def test_a_store_as_there_are_is_taken(tmp_path: Path, endpoint: str):
    with client_with(tmp_path, **{**STORE, "S3_ENDPOINT_URL": endpoint}) as client:
        assert client.plan(JobSpec(command="true", gpu_count=0), "local").plan


def test_keys_that_a_job_without_a_bucket_does_not_use_do_not_stop_it(tmp_path: Path):
    with client_with(tmp_path, CLOUD_REGION="us east", S3_ENDPOINT_URL="nowhere") as client:
        assert client.plan(JobSpec(command="true", gpu_count=0), "local").plan


@pytest.mark.parametrize("uri", ["s3://my bucket/k", "s3://-b/k", "s3://b$(id)/k"])
def test_an_input_in_a_bucket_of_no_possible_name_is_refused_with_its_place(
    tmp_path: Path, uri: str
):
    spec = JobSpec(
        command="cat {config_path}",
        gpu_count=0,
        specs={"data": uri},
        inputs=["data"],
        config_format="yaml",
    )
    with (
        client_with(tmp_path) as client,
        pytest.raises(SpecError, match=r"specs\.data is s3://.*name of a bucket"),
    ):
        client.submit(spec, "local")


@pytest.mark.parametrize(
    "uri", ["s3://b\nucket/k", "s3://bucket/k\r\nx: 1", "https://h/x\x1b[2J", "hf_model://o/n\n"]
)
def test_an_address_with_a_control_character_is_refused_without_it(tmp_path: Path, uri: str):
    spec = JobSpec(
        command="cat {config_path}",
        gpu_count=0,
        specs={"data": uri},
        inputs=["data"],
        config_format="yaml",
    )
    with (
        client_with(tmp_path) as client,
        pytest.raises(SpecError, match=r"specs\.data is .*control character") as told,
    ):
        client.submit(spec, "local")
    assert str(told.value).isprintable()
