"""What answers in place of the store: captive portals, web servers, other endpoints. None of it is
believed.
"""

from __future__ import annotations

import socket
import zlib
from base64 import b64encode

import pytest

from support.servers import s3_here
from support.servers.endpoint_here import Endpoint
from support.servers.web_server import Reply, WebServer, etag
from tao_sdk.engine.bucket_files import BucketFiles
from tao_sdk.model.errors import Unreachable
from tao_sdk.net import s3_source, transfer
from tao_sdk.net.failure import Failure
from tao_sdk.net.s3 import S3
from tao_sdk.net.source import Source
from tao_sdk.net.web import Web
from tao_sdk.runner.outputs.remote import Remote

pytestmark = pytest.mark.network

PAGE = b"<!DOCTYPE html>\n<html><title>Welcome to the hotel</title><form>log in</form></html>" * 300
HTML = {"Content-Type": "text/html; charset=utf-8"}
LIST = b"<?xml version='1.0'?><ListBucketResult></ListBucketResult>"


class Portal(WebServer):
    """Answers every question alike; `real` are the requests that the store answers,
    by their path.
    """

    def __init__(self, reply: Reply) -> None:
        self.reply, self.real = reply, {}
        super().__init__()

    def answer(self, request):
        real = self.real.get((request.method, request.path))
        return real or self.reply


PAGES = {
    "a page": Reply(200, PAGE, HTML),
    "a page with an ETag": Reply(200, PAGE, {**HTML, "ETag": etag(PAGE)}),
    "a page that calls itself nothing": Reply(200, PAGE),
    "nothing": Reply(200, b""),
    "a page that refuses": Reply(403, PAGE, HTML),
}


@pytest.fixture(params=PAGES)
def portal(request):
    made = Portal(PAGES[request.param])
    yield made
    made.close()


def test_a_page_is_no_object_no_listing_and_no_upload_to_anyone(portal, tmp_path):
    large = tmp_path / "large"
    large.write_bytes(bytes(9 << 20))
    s3 = s3_here.minio().s3(portal.url)
    remote = Remote(s3, "s3://b/results")
    verbs = {
        "head": lambda: s3.head("b", "k"),
        "list": lambda: list(s3.list("b", "")),
        "get": lambda: list(s3.get("b", "k", 0, len(PAGE), "")),
        "get all": lambda: list(s3.get("b", "k", 0, len(PAGE), etag(PAGE), {})),
        "put": lambda: s3.put("b", "k", b"x"),
        "put in parts": lambda: s3.put("b", "k", str(large)),
        "probe": remote.check_writable,
        "read": lambda: remote.read_object("manifest.json"),
        "look": lambda: s3_source.look("s3://b/k", "", s3.web),
        "look at a folder": lambda: s3_source.look("s3://b/k/", "", s3.web),
    }
    for verb, ask in verbs.items():
        with pytest.raises(Failure) as failure:
            ask()
        assert failure.value.code == "web.page", verb
        assert "captive portal" in failure.value.why + failure.value.next
        assert "S3_ENDPOINT_URL" in failure.value.next


def test_the_one_who_looks_at_files_from_here_is_told_of_the_page(portal):
    files = BucketFiles.of(s3_here.minio().env(portal.url))
    for look in (files.stat, files.list, files.read):
        with pytest.raises(Unreachable) as error:
            look("s3://b/results/log.txt")
        assert error.value.code == "web.page"


def test_an_object_that_is_a_web_page_is_fetched_from_a_store_that_says_little(tmp_path):
    """Its listing shows that it is a store, be its answers to objects as bare as those of a web
    server.
    """
    portal = Portal(Reply(200, PAGE, {**HTML, "ETag": etag(PAGE)}))
    portal.real[("GET", "/b")] = Reply(200, LIST)
    found = s3_source.look("s3://b/index.html", "", s3_here.minio().s3(portal.url).web)
    transfer.fetch(found.sources, str(tmp_path), lambda *_: None)
    assert (tmp_path / "index.html").read_bytes() == PAGE
    portal.close()


@pytest.mark.parametrize("size", [len(PAGE) + 1, len(PAGE), len(PAGE) - 1])
def test_a_page_that_comes_in_mid_job_never_becomes_the_object(size, tmp_path):
    portal = Portal(Reply(200, PAGE, HTML))
    portal.real[("HEAD", "/b/k")] = Reply(200, b"", {"ETag": '"0-2"', "Content-Length": str(size)})
    found = s3_source.look("s3://b/k", "file", s3_here.minio().s3(portal.url).web)
    with pytest.raises(Failure) as failure:
        transfer.fetch(found.sources, str(tmp_path), lambda *_: None)
    assert failure.value.code == "web.page"
    assert not (tmp_path / "k").exists()
    portal.close()


def test_more_bytes_than_were_asked_for_are_never_written_over_the_next_part(tmp_path):
    class Gushing(Source):
        def read(self, start, stop):
            yield memoryview(b"x" * (stop - start + 1))

    with pytest.raises(Failure) as failure:
        transfer.fetch([Gushing("k", 10, "1")], str(tmp_path), lambda *_: None, patience=0.3)
    assert (failure.value.code, "more" in failure.value.why) == ("fetch.broken", True)


def test_a_part_of_an_upload_that_a_page_answers_is_not_counted_as_stored(tmp_path):
    large = tmp_path / "large"
    large.write_bytes(bytes(9 << 20))
    portal = Portal(Reply(200, PAGE, HTML))
    begun = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
    portal.real[("POST", "/b/k")] = Reply(200, begun)
    with pytest.raises(Failure) as failure:
        s3_here.minio().s3(portal.url).put("b", "k", str(large))
    assert failure.value.code == "web.page"
    portal.close()


def test_an_upload_whose_completion_a_page_answers_is_not_counted_as_stored(tmp_path):
    large = tmp_path / "large"
    large.write_bytes(bytes(9 << 20))
    web = WebServer()
    begun = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"

    def answer(request):
        if request.method == "PUT":
            checksum = b64encode(zlib.crc32(request.body).to_bytes(4, "big")).decode()
            return Reply(200, b"", {"ETag": etag(request.body), "x-amz-checksum-crc32": checksum})
        return Reply(200, begun) if request.query.startswith("uploads") else Reply(200, PAGE, HTML)

    web.odd["/b/k"] = answer
    with pytest.raises(Failure) as failure:
        s3_here.minio().s3(web.url).put("b", "k", str(large))
    assert failure.value.code == "web.page"
    web.close()


def test_the_page_of_a_portal_gives_no_keys(tmp_path):
    (tmp_path / "token").write_text("t")
    ways = (
        lambda url: {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url},
        lambda url: {
            "AWS_ENDPOINT_URL_STS": url,
            "AWS_ROLE_ARN": "arn:aws:iam::1:role/r",
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
        },
    )
    with Endpoint(lambda *_: (200, PAGE.decode())) as endpoint:
        for way in ways:
            s3 = s3_here.minio().s3(
                AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="", **way(endpoint.url)
            )
            with pytest.raises(Failure) as failure:
                s3.head("b", "k")
            assert failure.value.code == "s3.credentials"
        s3 = s3_here.minio().s3(
            AWS_ACCESS_KEY_ID="",
            AWS_SECRET_ACCESS_KEY="",
            AWS_EC2_METADATA_SERVICE_ENDPOINT=endpoint.url,
        )
        assert s3.credentials.current_keys() is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_who_sends_us_to_another_host_is_told_with_that_host_and_gets_nothing_there(status):
    elsewhere = WebServer()
    to = f"{elsewhere.url}/login?from=\x1b[31m"
    portal = Portal(Reply(status, PAGE, {**HTML, "Location": to}))
    s3 = s3_here.minio().s3(portal.url)
    for ask in (
        lambda: s3.head("b", "k"),
        lambda: list(s3.list("b", "")),
        lambda: s3.put("b", "k", b"x"),
        lambda: list(s3.get("b", "k", 0, 1, "")),
    ):
        with pytest.raises(Failure) as failure:
            ask()
        assert failure.value.code == "web.redirect"
        assert elsewhere.url in failure.value.what
        assert "S3_ENDPOINT_URL" in failure.value.next
        assert "\x1b" not in str(failure.value) and "login" not in failure.value.what
    assert elsewhere.seen == []
    portal.close()
    elsewhere.close()


def test_an_endpoint_that_a_store_names_in_its_body_is_told():
    portal = Portal(
        Reply(
            301,
            b"<Error><Code>PermanentRedirect</Code><Endpoint>b.store.example.org</Endpoint></Error>",
        )
    )
    with pytest.raises(Failure) as failure:
        s3_here.minio().s3(portal.url).head("b", "k")
    assert "b.store.example.org" in failure.value.what
    portal.close()


HOSTS = {
    "https://s3.us-east-1.amazonaws.com": "https://s3.eu-west-3.amazonaws.com/b/k",
    "https://s3.us-east-1.amazonaws.com:8443/": "https://s3.eu-west-3.amazonaws.com:8443/b/k",
    "https://s3.amazonaws.com": "https://s3.eu-west-3.amazonaws.com/b/k",
    "https://s3-us-east-1.amazonaws.com": "https://s3-eu-west-3.amazonaws.com/b/k",
    "https://s3.dualstack.us-east-1.amazonaws.com": "https://s3.dualstack.eu-west-3.amazonaws.com/b/k",
    "": "https://b.s3.eu-west-3.amazonaws.com/k",
    "https://store.example.org": "https://store.example.org/b/k",
    "https://s3.us-east-1.amazonaws.com.example.org": "https://s3.us-east-1.amazonaws.com.example.org/b/k",
}


@pytest.mark.parametrize("endpoint", HOSTS)
def test_a_bucket_of_another_region_is_asked_for_at_the_endpoint_of_that_region(endpoint):
    s3 = S3(Web({"AWS_ENDPOINT_URL": endpoint}))
    s3.regions["b"] = "eu-west-3"
    assert s3.url("b", "k", None) == HOSTS[endpoint]


@pytest.mark.parametrize(
    "told",
    [
        Reply(
            301,
            b"<Error><Code>PermanentRedirect</Code></Error>",
            {"x-amz-bucket-region": "eu-west-3"},
        ),
        Reply(307, b"<Error><Endpoint>b.s3-eu-west-3.amazonaws.com</Endpoint></Error>"),
        Reply(307, b"", {"Location": "http://b.s3.eu-west-3.amazonaws.com/k"}),
    ],
)
def test_aws_is_followed_to_the_region_of_the_bucket_and_signed_for_it(told, monkeypatch):
    web, real = WebServer(), socket.getaddrinfo
    port = web.http.server_address[1]
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _host, *rest, **named: real("127.0.0.1", *rest, **named)
    )

    def answer(request):
        if request.headers["host"] != f"s3.eu-west-3.amazonaws.com:{port}":
            return told
        assert "/eu-west-3/s3/" in request.headers["authorization"]
        return Reply(200, b"", {"ETag": '"1"'})

    web.odd["/b/k"] = answer
    s3 = s3_here.minio().s3(f"http://s3.us-east-1.amazonaws.com:{port}")
    found = s3.head("b", "k")
    assert found and found.version == '"1"'
    web.close()


def test_a_store_that_wants_https_is_asked_by_https():
    server = s3_here.minio_tls()
    bucket = server.bucket()
    server.s3().put(bucket, "k", b"x")
    web = WebServer()
    web.odd[f"/{bucket}/k"] = lambda _: Reply(
        301, b"", {"Location": f"https://127.0.0.1:{server.port}/{bucket}/k"}
    )
    found = server.s3(web.url).head(bucket, "k")
    assert found and found.size == 1
    web.close()
