"""Where the keys come from: small real servers stand for the container's, the instance's and the
token service's endpoint.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from support.servers import s3_here
from support.servers.endpoint_here import Endpoint
from support.servers.endpoint_here import session as session_at
from tao_sdk.net.failure import Failure
from tao_sdk.net.s3_credentials import Credentials
from tao_sdk.net.web import Web

pytestmark = pytest.mark.network


def session(seconds=3600.0):
    return session_at(s3_here.minio(), seconds)


def reads(**environ):
    """Whether keys that are found this way open a bucket; the S3 that has them."""
    minio = s3_here.minio()
    bucket = minio.bucket()
    s3 = minio.s3(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="", **environ)
    for number in range(3):
        s3.put(bucket, f"k{number}", b"x")
    assert len(list(s3.list(bucket, ""))) == 3
    return s3


def test_a_session_token_of_the_environment():
    keys = session()
    minio = s3_here.minio()
    environ = {
        "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
    }
    minio.s3(**environ, AWS_SESSION_TOKEN=keys["Token"]).put(minio.bucket(), "k", b"x")
    with pytest.raises(Failure) as failure:
        minio.s3(**environ, AWS_SESSION_TOKEN="not-the-token").put(minio.bucket(), "k", b"x")
    assert failure.value.code in ("s3.expired", "s3.unknown_key", "s3.denied")


def test_a_containers_endpoint_gives_keys_to_whoever_has_the_token(tmp_path):
    token = tmp_path / "token"
    token.write_text("the-token\n")

    def answer(_method, _path, headers, _body):
        return (
            (200, json.dumps(session())) if headers["authorization"] == "the-token" else (401, "")
        )

    with Endpoint(answer) as endpoint:
        reads(
            AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{endpoint.url}v2/keys",
            AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(token),
        )
        assert len(endpoint.asked) == 1
        with pytest.raises(Failure) as failure:
            reads(
                AWS_CONTAINER_CREDENTIALS_FULL_URI=endpoint.url,
                AWS_CONTAINER_AUTHORIZATION_TOKEN="wrong",
            )
    assert failure.value.code == "s3.credentials"
    assert "401" in failure.value.why


def test_an_instances_endpoint_gives_keys_of_its_role():
    def answer(method, path, headers, _body):
        if method == "PUT" and path == "/latest/api/token":
            return 200, "session-of-the-metadata"
        if headers["x-aws-ec2-metadata-token"] != "session-of-the-metadata":
            return 401, ""
        if path.endswith("/security-credentials/"):
            return 200, "the-role"
        return (200, json.dumps(session())) if path.endswith("/the-role") else (404, "")

    with Endpoint(answer) as endpoint:
        reads(AWS_EC2_METADATA_SERVICE_ENDPOINT=endpoint.url)
        assert [method for method, *_ in endpoint.asked] == ["PUT", "GET", "GET"]


def test_a_web_identity_is_changed_into_keys_by_the_token_service(tmp_path):
    token = tmp_path / "token"
    token.write_text("web-identity-token")

    def answer(_method, _path, _headers, body):
        if (
            "WebIdentityToken=web-identity-token" not in body
            or "Action=AssumeRoleWithWebIdentity" not in body
        ):
            return (
                400,
                "<Error><Code>InvalidIdentityToken</Code><Message>No such token.</Message></Error>",
            )
        keys = session()
        inner = "".join(
            f"<{name}>{keys[key]}</{name}>"
            for name, key in {
                "AccessKeyId": "AccessKeyId",
                "SecretAccessKey": "SecretAccessKey",
                "SessionToken": "Token",
                "Expiration": "Expiration",
            }.items()
        )
        return (
            200,
            f"<AssumeRoleWithWebIdentityResponse><Credentials>{inner}</Credentials></AssumeRoleWithWebIdentityResponse>",
        )

    with Endpoint(answer) as endpoint:
        named = {"AWS_ROLE_ARN": "arn:aws:iam::1:role/r", "AWS_WEB_IDENTITY_TOKEN_FILE": str(token)}
        reads(AWS_ENDPOINT_URL_STS=endpoint.url, **named)
        token.write_text("another")
        with pytest.raises(Failure) as failure:
            reads(AWS_ENDPOINT_URL_STS=endpoint.url, **named)
    assert failure.value.code == "s3.credentials"
    assert "No such token" in failure.value.why
    assert "another" not in str(failure.value)


def test_keys_are_renewed_before_they_end():
    with Endpoint(lambda *_: (200, json.dumps(session(seconds=2)))) as endpoint:
        s3 = reads(AWS_CONTAINER_CREDENTIALS_FULL_URI=endpoint.url)
        first = s3.credentials.keys
        time.sleep(1.2)
        assert s3.credentials.current_keys() is not first
        assert len(endpoint.asked) == 2


def of_a_container(endpoint):
    return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": endpoint.url}


def of_an_instance(endpoint):
    return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint.url}


@pytest.mark.parametrize("found", [of_a_container, of_an_instance])
@pytest.mark.parametrize("status", [404, 503])
def test_keys_that_still_hold_good_are_used_while_no_others_can_be_had(found, status):
    away = False

    def answer(_method, path, _headers, _body):
        return (
            (status, "")
            if away
            else (200, "r" if path.endswith(("token", "credentials/")) else json.dumps(session()))
        )

    with Endpoint(answer) as endpoint:
        s3 = reads(**found(endpoint))
        bucket, first = s3_here.minio().bucket(), s3.credentials.keys
        away, first.due = True, 0.0
        s3.put(bucket, "k", b"x")
        asked = len(endpoint.asked)
        s3.put(bucket, "l", b"x")
        assert len(endpoint.asked) == asked  # not anew for each request
        away, first.due = False, 0.0
        s3.put(bucket, "m", b"x")
        assert s3.credentials.keys is not first


@pytest.mark.parametrize(
    "body",
    [
        "[" * 200_000,
        "[]",
        '"keys"',
        '{"AccessKeyId": 5, "SecretAccessKey": "b"}',
        '{"AccessKeyId": "a", "SecretAccessKey": [1]}',
        '{"AccessKeyId": "a", "SecretAccessKey": "b", "Token": {"a": 1}}',
        '{"AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": 7}',
        '{"AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": "9999-99-99"}',
    ],
    ids=lambda body: body[:40],
)
def test_an_answer_that_holds_no_keys_names_who_gave_it(body: str) -> None:
    with Endpoint(lambda *_: (200, body)) as endpoint:
        web = Web({"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint.url}keys"})
        with pytest.raises(Failure) as failure:
            Credentials(web, on_aws=False).current_keys()
    assert failure.value.code == "s3.credentials"
    assert "127.0.0.1" in failure.value.what
    assert failure.value.why
    assert failure.value.next


@pytest.mark.parametrize(
    "names",
    [
        {"AWS_WEB_IDENTITY_TOKEN_FILE": "FILE", "AWS_ROLE_ARN": "arn:x"},
        {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9/k",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "FILE",
        },
    ],
)
def test_a_token_file_that_is_no_text_is_named(names: dict[str, str], tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_bytes(b"\xff\xfe")
    web = Web({name: value.replace("FILE", str(token)) for name, value in names.items()})
    with pytest.raises(Failure) as failure:
        Credentials(web, on_aws=False).current_keys()
    assert failure.value.code == "s3.credentials"
    assert str(token) in failure.value.what
    assert failure.value.why == "It is no UTF-8 text."
    assert failure.value.next


def test_without_keys_a_public_bucket_is_read():
    minio = s3_here.minio()
    s3, bucket = minio.s3(), minio.bucket()
    s3.put(bucket, "k", b"x")
    anyone = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": ["s3:GetObject"],
        "Resource": [f"arn:aws:s3:::{bucket}/*"],
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [anyone]}).encode()
    assert s3.ask("PUT", bucket, "", {"policy": ""}, policy).status in (200, 204)
    nobody = minio.s3(AWS_ACCESS_KEY_ID="")
    assert b"".join(map(bytes, nobody.get(bucket, "k", 0, 1, ""))) == b"x"
    with pytest.raises(Failure) as failure:
        nobody.put(bucket, "k", b"y")
    assert failure.value.code == "s3.no_credentials"
    assert "AWS_ACCESS_KEY_ID" in failure.value.next
