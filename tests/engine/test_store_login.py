"""Before a job is submitted: keys for the buckets that it needs, or a word that a
role gives them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.servers import s3_here
from tao_sdk.client import Client
from tao_sdk.engine.prepare import with_environment
from tao_sdk.model.errors import CredentialError
from tao_sdk.model.secrets import Secret, SecretRef
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.payload.prepared_job import pack_spec

BUCKET = "s3://acme-training/results"


def opened(tmp_path: Path, **environ: str) -> Client:
    base = {
        "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }
    return Client(settings=Settings({**base, **environ}))


def sending(**env_vars: str | Secret) -> JobSpec:
    return JobSpec(command="true", gpu_count=0, env_vars={"TAO_RESULTS_ROOT": BUCKET, **env_vars})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "No keys are set"),
        ({"ACCESS_KEY": "AKIA-somebody"}, "SECRET_KEY is not set"),
        ({"AWS_EC2_METADATA_DISABLED": "true"}, "No keys are set"),
        ({"AWS_ROLE_ARN": "arn:aws:iam::1:role/x"}, "No keys are set"),
    ],
)
def test_a_job_that_nobody_has_keys_for_is_told_so_before_it_is_submitted(
    tmp_path: Path, given: dict[str, str], told: str
) -> None:
    with opened(tmp_path) as client:
        with pytest.raises(CredentialError, match=told) as error:
            client.submit(sending(**given), "local")
        assert f"There are no keys to send results to {BUCKET}" in str(error.value)
        assert client.list_jobs() == []


def test_an_output_that_the_spec_places_in_a_bucket_needs_keys_too(tmp_path: Path) -> None:
    specs = {"results": "s3://acme-training/run"}
    spec = JobSpec(command="true {config_path}", gpu_count=0, specs=specs, outputs=["results"])
    with opened(tmp_path) as client, pytest.raises(CredentialError, match="s3://acme-training/run"):
        client.plan(spec, "local")


@pytest.mark.slow
@pytest.mark.parametrize(
    "said",
    [
        {"ACCESS_KEY": "AKIA-somebody", "SECRET_KEY": "a-secret-of-somebody"},
        {"AWS_ACCESS_KEY_ID": "AKIA-somebody", "AWS_SECRET_ACCESS_KEY": "a-secret-of-somebody"},
        {"AWS_ROLE_ARN": "arn:aws:iam::1:role/x", "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token"},
        {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/role"},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/role"},
        {"AWS_EC2_METADATA_DISABLED": "false"},
    ],
    ids=lambda said: next(iter(said)),
)
@pytest.mark.parametrize("where", ["env_vars", "environment"])
def test_keys_and_a_role_that_is_said_to_be_there_let_the_job_go(
    tmp_path: Path, said: dict[str, str], where: str
) -> None:
    with opened(tmp_path, **(said if where == "environment" else {})) as client:
        planned = client.plan(sending(**(said if where == "env_vars" else {})), "local")
    assert not [each for each in planned.findings if each.code == "s3.no_credentials"]


READS = JobSpec(command="true", gpu_count=0, inputs={"/nowhere/x": "s3://acme-training/a"})
DEAD_STORE = "http://127.0.0.1:9"


@pytest.mark.slow
def test_a_job_without_keys_is_not_sent_to_a_store_that_does_not_answer(tmp_path: Path) -> None:
    with opened(tmp_path, S3_ENDPOINT_URL=DEAD_STORE) as client:
        with pytest.raises(CredentialError, match="no keys to read s3://acme-training/a") as error:
            client.submit(READS, "local")
        assert error.value.code == "s3.no_credentials"
        assert "AWS_EC2_METADATA_DISABLED=false" in error.value.next
        assert client.list_jobs() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "said",
    [{"AWS_EC2_METADATA_DISABLED": "false"}, {"ACCESS_KEY": "AKIA-a", "SECRET_KEY": "a-secret"}],
    ids=["role", "keys"],
)
def test_a_store_that_does_not_answer_from_here_is_a_warning_for_a_job_with_keys(
    tmp_path: Path, said: dict[str, str]
) -> None:
    if "ACCESS_KEY" not in said:
        said = {**said, "AWS_EC2_METADATA_SERVICE_ENDPOINT": DEAD_STORE}
    with opened(tmp_path, S3_ENDPOINT_URL=DEAD_STORE, **said) as client:
        planned = client.plan(READS, "local")
    assert [each.severity.value for each in planned.findings] == ["warning"]


@pytest.mark.network
def test_a_public_bucket_is_read_without_keys_and_another_one_is_not(tmp_path: Path) -> None:
    server = s3_here.minio()
    public, closed = server.bucket(), server.bucket()
    for name in (public, closed):
        server.s3().put(name, "data/a", b"x")
    allowed = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": ["s3:GetObject", "s3:ListBucket"],
        "Resource": [f"arn:aws:s3:::{public}", f"arn:aws:s3:::{public}/*"],
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]}).encode()
    assert server.s3().ask("PUT", public, "", {"policy": ""}, policy).status in (200, 204)
    with opened(tmp_path, S3_ENDPOINT_URL=server.url) as client:
        reading = JobSpec(
            command="true", gpu_count=0, inputs={f"{tmp_path}/x": f"s3://{public}/data/a"}
        )
        assert not [each for each in client.plan(reading, "local").findings if "input" in each.what]
        with pytest.raises(CredentialError, match=closed):
            client.plan(
                JobSpec(command="true", gpu_count=0, inputs={"/nowhere": f"s3://{closed}/data/a"}),
                "local",
            )


@pytest.mark.parametrize(
    "bucket", [{}, {"S3_BUCKET_NAME": "acme-training"}], ids=["named-at-run-time", "in-env-vars"]
)
def test_keys_in_env_vars_win_over_those_of_the_caller_under_every_name(
    tmp_path: Path, bucket: dict[str, str]
) -> None:
    environ = {
        "HOME": str(tmp_path),
        "ACCESS_KEY": "AKIA-of-the-caller",
        "SECRET_KEY": "secret-of-the-caller",
        "AWS_SESSION_TOKEN": "token-of-the-caller",
    }
    own = {"ACCESS_KEY": "AKIA-of-the-job", "SECRET_KEY": Secret("secret-of-the-job"), **bucket}
    plain = pack_spec(JobSpec(command="true", env_vars=own))
    job, secrets = with_environment(plain, Settings(environ))
    assert secrets["AWS_ACCESS_KEY_ID"] == secrets["ACCESS_KEY"] == "AKIA-of-the-job"
    assert secrets["AWS_SECRET_ACCESS_KEY"] == secrets["SECRET_KEY"] == "secret-of-the-job"
    assert isinstance(job.spec.env_vars["AWS_SECRET_ACCESS_KEY"], SecretRef)
    assert "AWS_SESSION_TOKEN" not in secrets


@pytest.mark.parametrize("where", ["env_vars", "environment"])
def test_a_profile_without_keys_is_no_login_as_no_job_can_use_it(
    tmp_path: Path, where: str
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(
        "[profile lab]\nsso_session = acme\nregion = eu-west-1\n"
    )
    said = {"AWS_PROFILE": "lab"}
    with opened(tmp_path, **(said if where == "environment" else {})) as client:
        with pytest.raises(CredentialError, match="The AWS profile lab has no keys") as error:
            client.submit(sending(**(said if where == "env_vars" else {})), "local")
        assert "aws configure export-credentials --profile lab" in error.value.next
        assert client.list_jobs() == []


def test_a_profile_with_keys_is_a_login(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[lab]\naws_access_key_id = me\naws_secret_access_key = my-secret\n"
    )
    with opened(tmp_path, AWS_PROFILE="lab") as client:
        assert set(client.plan(sending(), "local").plan.secrets) == {
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
        }


DATA_IN_BUCKET: dict[str, dict[str, Any]] = {
    "an input": {"specs": {"train": "s3://acme/data"}, "inputs": {"train": {"type": "folder"}}},
    "an input of a path": {"inputs": {"/data": "s3://acme/data"}},
    "an output": {"specs": {"out": "s3://acme/out"}, "outputs": {"out": {"type": "folder"}}},
    "an address that the program reads": {"specs": {"deep": [{"weights": "s3://acme/w"}]}},
    "an address in args": {"args": {"weights": "s3://acme/w"}},
}


@pytest.mark.parametrize("spec", DATA_IN_BUCKET.values(), ids=DATA_IN_BUCKET)
def test_a_job_with_data_in_a_bucket_gets_the_keys_of_the_profile(
    tmp_path: Path, spec: dict[str, Any]
) -> None:
    assert "AWS_SECRET_ACCESS_KEY" in secrets_with_profile(tmp_path, **spec)


def test_a_job_without_data_in_a_bucket_gets_no_keys_of_the_profile(tmp_path: Path) -> None:
    spec = {"specs": {"train": "/data"}, "inputs": ["train"], "outputs": ["out"]}
    assert not secrets_with_profile(tmp_path, **spec)


def secrets_with_profile(home: Path, **spec: Any) -> dict[str, str]:
    """The secrets of a job whose caller has a profile with keys."""
    (home / ".aws").mkdir()
    (home / ".aws" / "credentials").write_text(
        "[lab]\naws_access_key_id = me\naws_secret_access_key = my-secret\n"
    )
    settings = Settings({"HOME": str(home), "AWS_PROFILE": "lab"})
    _, secrets = with_environment(pack_spec(JobSpec(command="true", **spec)), settings)
    return secrets
