"""Before a job is submitted its inputs in S3 are looked at from here."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from support.servers import s3_here
from support.servers.ports import free_port
from tao_sdk.client import Client
from tao_sdk.model.errors import CredentialError, Refused, SpecError, Unreachable, UsageError
from tao_sdk.model.finding import Severity
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec

pytestmark = pytest.mark.network

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
        each
        for each in client.plan(reading(f"s3://{bucket}/{path}"), "local").findings
        if "input" in each.what
    ]


def test_patterns_that_choose_nothing_since_a_path_is_used_whole_are_a_warning(client, tmp_path):
    inputs = {"/nowhere/x": {"uri": str(tmp_path), "patterns": ["*.png"]}}
    spec = JobSpec(command="true", gpu_count=0, inputs=inputs)
    assert [
        each.code for each in client.plan(spec, "local").findings if "patterns" in each.what
    ] == ["input.whole"]


@pytest.mark.parametrize(
    ("inputs", "warned"),
    [(None, ["input.undeclared"]), ({"m.a": {"type": "text"}, "m.b": "text"}, [])],
)
def test_an_address_that_nobody_declares_is_a_warning_unless_it_is_called_a_text(
    client, inputs, warned
):
    specs = {"m": {"a": "s3://b/x", "b": "s3://b/y"}, "out": "s3://b/z"}
    spec = JobSpec(
        command="true {config_path}", gpu_count=0, specs=specs, inputs=inputs, outputs=["out"]
    )
    found = [each for each in client.plan(spec, "local").findings if each.code.startswith("input.")]
    assert [each.code for each in found] == warned
    assert all("m.a is s3://b/x" in each.what and "1 more" in each.what for each in found)


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
    elsewhere = f"http://127.0.0.1:{free_port()}"
    found = client.plan(
        reading(f"s3://{bucket}/data", AWS_ENDPOINT_URL=elsewhere), "local"
    ).findings
    assert [(each.severity, each.code) for each in found if each.code == "web.refused"] == [
        (Severity.WARNING, "web.refused")
    ]


def test_an_endpoint_that_is_no_address_stops_a_job_and_a_look(client, bucket, tmp_path):
    with pytest.raises(
        SpecError, match="AWS_ENDPOINT_URL is 'localhost:9000'.* does not start with http://"
    ):
        client.submit(reading(f"s3://{bucket}/data", AWS_ENDPOINT_URL="localhost:9000"), "local")
    with (
        opened(tmp_path, S3_ENDPOINT_URL="localhost:9000") as elsewhere,
        pytest.raises(Unreachable, match="begin with"),
    ):
        elsewhere.check_path(f"s3://{bucket}/data")


def test_a_look_into_a_bucket_that_may_not_be_in_aws_says_where_to_name_its_store(tmp_path):
    with opened(tmp_path, **KEYS) as client, pytest.raises(Unreachable) as error:
        client.check_path(f"s3://{'a' * 64}/data")  # a name that no server can have
    assert error.value.next.startswith(
        "Set S3_ENDPOINT_URL, unless the bucket is in AWS. Check the address"
    )


def test_without_keys_a_job_that_runs_here_is_refused(client, bucket, tmp_path):
    here = {"S3_ENDPOINT_URL": s3_here.minio().url, "AWS_EC2_METADATA_DISABLED": "true"}
    environ = {
        **here,
        "TAO_SDK_STATE_DIR": str(tmp_path / "other"),
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }
    with Client(settings=Settings(environ)) as without:
        with pytest.raises(CredentialError, match="ACCESS_KEY") as error:
            without.submit(reading(f"s3://{bucket}/data"), "local")
        assert error.value.code == "s3.no_credentials"
        assert without.list_jobs() == []


def opened(tmp_path, **environ):
    base = {
        "TAO_SDK_STATE_DIR": str(tmp_path / "profile"),
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }
    return Client(settings=Settings({**base, "AWS_EC2_METADATA_DISABLED": "true", **environ}))


@pytest.fixture
def profiles(tmp_path):
    """What `aws configure` writes: a default that nobody lets in, and a profile that opens the
    store.
    """
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = nobody\naws_secret_access_key = nobodys-secret\n"
        f"[lab]\naws_access_key_id = {s3_here.ACCESS}\naws_secret_access_key = {s3_here.SECRET}\n"
    )
    (folder / "config").write_text(
        "[default]\nregion = eu-west-1\n[profile lab]\nregion = us-east-1\nendpoint_url = "
        f"{s3_here.minio().url}\n"
    )


def test_the_profile_of_the_aws_command_opens_a_bucket_here(profiles, bucket, tmp_path):
    with opened(tmp_path, AWS_PROFILE="lab") as client:
        assert client.check_path(f"s3://{bucket}/data/a")
        assert client.list_path(f"s3://{bucket}/data") == ["a"]
    with (
        opened(tmp_path, S3_ENDPOINT_URL=s3_here.minio().url) as client,
        pytest.raises(Unreachable) as error,
    ):
        client.check_path(f"s3://{bucket}/data/a")  # the default profile's keys are unknown there
    assert error.value.code in ("s3.unknown_key", "s3.denied")
    with opened(tmp_path, AWS_PROFILE="lab", **KEYS, S3_ENDPOINT_URL=s3_here.minio().url) as client:
        assert client.check_path(f"s3://{bucket}/data/a")


def test_a_job_that_reads_from_a_bucket_gets_the_keys_of_the_profile_as_secrets_and_another_job_none(
    profiles, bucket, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with opened(tmp_path, AWS_PROFILE="lab") as client:
        reads = JobSpec(
            command=f"cat {tmp_path}/in",
            gpu_count=0,
            inputs={f"{tmp_path}/in": f"s3://{bucket}/data/a"},
        )
        planned = client.plan(reads, "local")
        assert set(planned.plan.secrets) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
        assert s3_here.SECRET not in json.dumps(planned.plan.to_json()) + repr(planned)
        job = client.submit(reads, "local").job
        assert client.wait(job.id, timeout=300).status == "Complete", client.get_job_logs(job.id)
        assert client.get_job_logs(job.id).endswith("x")
        assert client.plan(JobSpec(command="true", gpu_count=0), "local").plan.secrets == ()
        own = replace(
            reads, env_vars={"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "my-own-secret"}
        )
        assert client.plan(own, "local").secrets == {
            "AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "my-own-secret",
        }  # fmt: skip


def test_a_profile_that_is_not_there_is_told_with_where_it_was_looked_for(
    profiles, bucket, tmp_path
):
    with opened(tmp_path, AWS_PROFILE="lap") as client, pytest.raises(UsageError) as error:
        client.check_path(f"s3://{bucket}/data/a")
    assert "lap" in str(error.value) and ".aws/credentials" in str(error.value)


def test_a_name_that_nobody_knows_makes_one_think_of_the_endpoint(bucket, tmp_path):
    env = {"AWS_ENDPOINT_URL": "", "AWS_REGION": "no-such-region"}
    with Client(
        settings=Settings({"HOME": "/nowhere", "TAO_SDK_STATE_DIR": str(tmp_path), **KEYS})
    ) as other:
        found = other.plan(reading(f"s3://{bucket}/data", **env), "local").findings
    assert ["S3_ENDPOINT_URL" in each.fix for each in found if each.code == "web.dns"] == [True]
