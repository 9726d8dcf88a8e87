"""S3 as the runner speaks it, against real servers, over http and https."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
import zlib
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.servers import link_here, s3_here
from support.servers.endpoint_here import called, session
from support.servers.ports import free_port
from support.servers.web_server import Reply, WebServer, etag
from tao_sdk.engine.bucket_files import level
from tao_sdk.net import s3_put, s3_source, wire
from tao_sdk.net.failure import Failure
from tao_sdk.net.s3 import S3
from tao_sdk.net.s3_put import sweep
from tao_sdk.net.s3_xml import inner
from tao_sdk.net.web import Changed, Web

pytestmark = pytest.mark.network

ODD = [
    "plain.txt",
    "with space and+plus&amp;.txt",
    "a=b,c;d:e@f$g!h'i(j)*k~l.txt",
    "ünï/码/😀.bin",
    'quote"back|hash#question?percent%20.txt',
    "deep/er/and/deeper/file",
    "<tag>&entity;</tag>",
]


@pytest.fixture(params=s3_here.SERVERS)
def server(request):
    return s3_here.SERVERS[request.param]()


def test_whatever_legal_key_an_object_has_it_is_stored_listed_read_and_deleted(server):
    s3, bucket = server.s3(), server.bucket()
    for key in ODD:
        s3.put(bucket, key, key.encode())
    assert {each.key for each in s3.list(bucket, "")} == set(ODD)
    for key in ODD:
        head = s3.head(bucket, key)
        assert head and head.size == len(key.encode())
        assert b"".join(map(bytes, s3.get(bucket, key, 0, head.size, head.version))) == key.encode()
        assert s3.ask("DELETE", bucket, key).status == 204
    assert list(s3.list(bucket, "")) == []


def test_ten_thousand_keys_are_listed_all_page_by_page():
    server = s3_here.versitygw()  # keeps objects as files, so that they are quickly there
    bucket = server.bucket()
    folder = server.folder / "data" / bucket / "many"
    folder.mkdir()
    for number in range(10_000):
        (folder / f"{number:05}").touch()
    with link_here.Link(server.address) as link:
        assert [each.key for each in server.s3(link.url).list(bucket, "many/")] == [
            f"many/{n:05}" for n in range(10_000)
        ]
        assert link.counts == {"GET": 10}


def page(content: bytes) -> bytes:
    """Of a listing."""
    return (
        b"<?xml version='1.0' encoding='UTF-8'?>\n<ListBucketResult>%s</ListBucketResult>" % content
    )


def test_a_listing_may_end_with_a_page_that_holds_nothing():
    """As MinIO's does whose last page was full."""
    web = WebServer()
    more = b"<IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;1</NextContinuationToken>"
    full = more + b"<Contents><Key>a</Key><Size>1</Size></Contents>"
    web.odd["/b"] = lambda request: Reply(
        200, page(b"" if "continuation-token=t%261" in request.query else full)
    )
    assert [each.key for each in s3_here.minio().s3(web.url).list("b", "")] == ["a"]
    assert len(web.seen) == 2
    web.close()


def test_a_listing_that_breaks_off_without_saying_how_it_goes_on_is_an_error_and_not_a_part():
    """As of stores that know the older listing only, which goes on from a marker."""
    web = WebServer()
    more = b"<IsTruncated>true</IsTruncated><Contents><Key>a</Key><Size>1</Size></Contents>"
    web.odd["/b"] = lambda _: Reply(200, page(more))
    with pytest.raises(Failure) as failure:
        list(s3_here.minio().s3(web.url).list("b", ""))
    assert failure.value.code == "s3.listing"
    web.close()


def test_an_object_where_a_folder_would_have_to_be_is_told_by_a_store_that_keeps_objects_as_files():
    s3, bucket = s3_here.versitygw().s3(), s3_here.versitygw().bucket()
    s3.put(bucket, "a", b"x")
    with pytest.raises(Failure) as failure:
        s3.put(bucket, "a/b", b"x")
    assert (failure.value.code, f"s3://{bucket}/a/b" in failure.value.what) == ("s3.clash", True)


def test_one_level_of_a_bucket_is_its_folders_and_objects(server):
    s3, bucket = server.s3(), server.bucket()
    for key in ("top", "a b/x", "a b/y/z", "c/d"):
        s3.put(bucket, key, b"1")
    folders, entries = level(s3, bucket, "")
    assert (sorted(folders), [each.key for each in entries]) == (["a b/", "c/"], ["top"])
    folders, entries = level(s3, bucket, "a b/")
    assert (folders, [each.key for each in entries]) == (["a b/y/"], ["a b/x"])


def test_an_object_of_many_parts_is_what_was_sent(server, tmp_path):
    s3, bucket = server.s3(), server.bucket()
    content = os.urandom(1 << 20) * 20 + b"the rest"
    path = tmp_path / "large"
    path.write_bytes(content)
    version = s3.put(bucket, "large", str(path))
    head = s3.head(bucket, "large")
    assert head and (head.size, head.version) == (len(content), version)
    assert version.strip('"').endswith("-3")
    assert b"".join(map(bytes, s3.get(bucket, "large", 0, len(content), version))) == content
    start = (8 << 20) - 5
    assert (
        b"".join(map(bytes, s3.get(bucket, "large", start, start + 10, version)))
        == content[start : start + 10]
    )


def test_parts_are_sent_side_by_side(server_line, tmp_path):
    """The first of them is held up until the second has arrived."""
    server, link, bucket = server_line
    s3, arrived = server.s3(), []

    def wait_for_the_second():
        for _ in range(400):
            upload = inner(
                s3.ask("GET", bucket, "", {"uploads": "", "prefix": "large"}).text, "UploadId"
            )
            if (
                "<PartNumber>2</PartNumber>"
                in s3.ask("GET", bucket, "large", {"uploadId": upload}).text
            ):
                arrived.append(2)
                return
            time.sleep(0.05)

    (tmp_path / "large").write_bytes(bytes(20 << 20))
    with called(wait_for_the_second) as hook:
        link.faults(hook=hook.url, hook_at=1, methods="PUT", match="partNumber=1")
        server.s3(link.url).put(bucket, "large", str(tmp_path / "large"))
    assert arrived == [2]


def test_an_object_of_more_than_5_gb_has_few_enough_parts_and_is_read_at_any_place(tmp_path):
    """No single request may store so much. The file has holes, so that it is quickly there."""
    assert {s3_put.part_size(size) for size in (0, 5 << 30, 70 << 30)} == {8 << 20}
    assert all(
        -(-size // s3_put.part_size(size)) <= 10_000 for size in (80 << 30, 1 << 40, 5 << 40)
    )
    server = s3_here.versitygw()  # keeps objects as files
    s3, bucket = server.s3(), server.bucket()
    with (server.folder / "data" / bucket / "huge").open("wb") as file:
        file.seek(6 << 30)
        file.write(b"the end")
    (found,) = s3_source.look(f"s3://{bucket}/huge", "", s3.web).sources
    assert found.size == (6 << 30) + 7
    assert b"".join(map(bytes, found.read((6 << 30) - 3, found.size))) == b"\0\0\0the end"


def test_an_object_without_bytes_is_stored_and_read(server):
    s3, bucket = server.s3(), server.bucket()
    s3.put(bucket, "nothing", b"")
    head = s3.head(bucket, "nothing")
    assert head and head.size == 0
    assert list(s3.get(bucket, "nothing", 0, 0, head.version)) == []


def test_of_many_that_store_an_object_only_when_it_is_new_one_does(server):
    s3, bucket = server.s3(), server.bucket()

    def store(number):
        try:
            s3.put(bucket, "one", f"writer {number}".encode(), only_new=True)
        except Changed:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(store, range(8))) == 1


def test_an_object_that_was_replaced_is_not_read_as_the_one_before(server):
    s3, bucket = server.s3(), server.bucket()
    s3.put(bucket, "k", b"one")
    before = s3.head(bucket, "k")
    s3.put(bucket, "k", b"two")
    with pytest.raises(Changed):
        list(s3.get(bucket, "k", 0, 3, before.version))


@pytest.mark.parametrize("status, told", [(200, ""), (206, "bytes 0-4/20")])
def test_bytes_that_were_not_asked_for_are_never_taken_for_those_that_were(tmp_path, status, told):
    """Of a cache on the way that knows no ranges: where an object has no checksum, nothing else
    would tell.
    """
    web, content = WebServer(), os.urandom(20)
    headers = {"etag": '"0-2"', **({"content-range": told} if told else {})}
    web.odd["/b/k"] = lambda _: Reply(status, content, headers)
    s3 = s3_here.minio().s3(web.url)
    with pytest.raises(OSError, match="range"):
        list(s3.get("b", "k", 5, 10, '"0-2"'))
    web.close()


NOTHING = json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Deny", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]}],
})  # fmt: skip


def keys_that_may_nothing():
    keys = session(s3_here.minio(), Policy=NOTHING)
    names = {
        "AWS_ACCESS_KEY_ID": "AccessKeyId",
        "AWS_SECRET_ACCESS_KEY": "SecretAccessKey",
        "AWS_SESSION_TOKEN": "Token",
    }
    return {name: keys[named] for name, named in names.items()}


REFUSALS = {
    "s3.denied": (keys_that_may_nothing, "", "k"),
    "s3.no_bucket": ({}, "no-such-bucket-here", "k"),
    "s3.wrong_secret": ({"AWS_SECRET_ACCESS_KEY": "not-the-secret"}, "", "k"),
    "s3.unknown_key": ({"AWS_ACCESS_KEY_ID": "nobody-has-it"}, "", "k"),
    "s3.no_credentials": ({"AWS_ACCESS_KEY_ID": ""}, "", "k"),
}


@pytest.mark.parametrize("code", REFUSALS)
@pytest.mark.parametrize("verb", ["get", "head", "list", "put", "put in parts"])
def test_each_refusal_is_told_by_its_own_code_whatever_was_asked(code, verb, tmp_path):
    server = s3_here.minio()
    environ, bucket, key = REFUSALS[code]
    bucket = bucket or server.bucket()
    if bucket != "no-such-bucket-here":
        server.s3().put(bucket, key, b"x")
    s3 = server.s3(**(environ() if callable(environ) else environ))
    large = tmp_path / "large"
    large.write_bytes(bytes(9 << 20))
    verbs = {
        "get": lambda: list(s3.get(bucket, key, 0, 1, "")),
        "head": lambda: s3.head(bucket, key) or list(s3.list(bucket, "")),
        "list": lambda: list(s3.list(bucket, "")),
        "put": lambda: s3.put(bucket, key, b"y"),
        "put in parts": lambda: s3.put(bucket, key, str(large)),
    }
    with pytest.raises(Failure) as failure:
        verbs[verb]()
    assert failure.value.code == code
    assert failure.value.next
    assert "not-the-secret" not in str(failure.value)


def test_an_object_that_is_not_there_is_told_with_its_key(server):
    s3, bucket = server.s3(), server.bucket()
    assert s3.head(bucket, "gone") is None
    with pytest.raises(Failure) as failure:
        list(s3.get(bucket, "gone", 0, 1, ""))
    assert failure.value.code == "s3.no_key"
    assert f"s3://{bucket}/gone" in failure.value.what


def test_a_bucket_in_another_region_is_found_there(server):
    bucket = server.bucket()
    s3 = server.s3(AWS_REGION="eu-central-1")
    s3.put(bucket, "k", b"x")
    assert s3.head(bucket, "k").size == 1
    assert s3.regions.get(bucket, "") in ("us-east-1", "")


@pytest.mark.parametrize("verb", ["head", "list"])
def test_a_store_that_redirects_to_another_region_is_asked_there(verb):
    """As AWS does: the head of a 301 names the region, also where there is no body. An endpoint of
    its own goes with it.
    """

    def answer(request):
        if "/eu-west-3/s3/" in request.headers["authorization"]:
            return Reply(200, b"<ListBucketResult></ListBucketResult>", {"ETag": '"1"'})
        return Reply(
            301,
            b"<Error><Code>PermanentRedirect</Code></Error>",
            {"x-amz-bucket-region": "eu-west-3"},
        )

    web = WebServer()
    web.odd.update({"/b/k": answer, "/b": answer})
    s3 = s3_here.minio().s3(web.url)
    assert s3.head("b", "k") if verb == "head" else list(s3.list("b", "")) == []
    assert len(web.seen) == 2
    s3.endpoint, s3.virtual = "", True
    assert s3.url("b", "k", None) == "https://b.s3.eu-west-3.amazonaws.com/k"
    web.close()


def test_a_region_that_is_wrong_and_not_corrected_is_told():
    web = WebServer()
    web.odd["/b/k"] = lambda _: Reply(301, b"<Error><Code>PermanentRedirect</Code></Error>")
    with pytest.raises(Failure) as failure:
        s3_here.minio().s3(web.url).head("b", "k")
    assert (failure.value.code, "us-east-1" in failure.value.what) == ("s3.region", True)
    assert "CLOUD_REGION" in failure.value.next
    web.close()


def test_buckets_are_named_in_the_host_where_that_is_the_style():
    server = s3_here.minio_tls()
    bucket = server.bucket()
    url = f"https://s3.test.local:{server.port}"
    with Names({f"{bucket}.s3.test.local": "127.0.0.1", "s3.test.local": "127.0.0.1"}):
        s3 = server.s3(url, AWS_S3_ADDRESSING_STYLE="virtual")
        s3.put(bucket, "a b/c", b"x")
        assert [each.key for each in s3.list(bucket, "")] == ["a b/c"]
        assert s3.url(bucket, "k", None).startswith(f"https://{bucket}.s3.test.local:")


class Names:
    """Names that this process resolves by itself: no DNS server of the tests' own is asked by the
    system's resolver.
    """

    def __init__(self, addresses):
        self.addresses = addresses

    def __enter__(self):
        import socket

        self.real = socket.getaddrinfo
        socket.getaddrinfo = lambda host, *rest, **named: self.real(
            self.addresses.get(host, host), *rest, **named
        )

    def __exit__(self, *_):
        import socket

        socket.getaddrinfo = self.real


def test_a_clock_that_is_wrong_is_corrected_once_by_the_servers():
    server = (
        s3_here.moto()
    )  # takes requests of any time; the line says what a server with another clock would
    bucket = server.bucket()
    with link_here.Link(server.address) as link:
        link.faults(skew_seconds=3600)
        s3, told = server.s3(link.url), []
        s3.web.tell = lambda event, **facts: told.append(facts)
        s3.put(bucket, "k", b"x")
        assert s3.head(bucket, "k").size == 1
        assert link.counts["403"] == 1
        assert 3500 < s3.skew < 3700
        assert [(facts["code"], "60 min" in facts["what"]) for facts in told] == [
            ("s3.clock", True)
        ]


def test_a_clock_that_is_wrong_again_is_told():
    server = (
        s3_here.minio()
    )  # with a clock of its own, so that the line's is wrong whatever the client takes
    bucket = server.bucket()
    with link_here.Link(server.address) as link:
        link.faults(skew_seconds=-3600)
        with pytest.raises(Failure) as failure:
            server.s3(link.url).put(bucket, "k", b"x")
    assert failure.value.code == "s3.clock"
    assert "60 min" in failure.value.what


def test_a_busy_store_is_asked_again_until_it_has_time(server_line):
    server, link, bucket = server_line
    link.faults(busy=2)
    s3 = server.s3(link.url)
    for number in range(6):
        s3.put(bucket, f"k{number}", b"x")
    assert link.counts["503"] >= 5
    assert len(list(s3.list(bucket, ""))) == 6


def test_a_store_that_stays_busy_is_told(server_line):
    server, link, bucket = server_line
    link.faults(busy=1)
    with pytest.raises(Failure) as failure:
        server.s3(link.url, TAO_RETRY_SECONDS="1").put(bucket, "k", b"x")
    assert failure.value.code == "s3.busy"


def test_a_store_that_stays_busy_while_it_is_read_is_told_and_no_connection_is_used_by_two(
    server_line,
):
    server, link, bucket = server_line
    large = {name: os.urandom(3_000_000) for name in "ab"}
    for name, content in large.items():
        server.s3().put(bucket, name, content)
    s3, began = server.s3(link.url, TAO_RETRY_SECONDS="1"), time.monotonic()
    link.faults(busy=1)
    with pytest.raises(Failure) as failure:
        next(s3.get(bucket, "a", 0, 3_000_000, ""))
    assert failure.value.code == "s3.busy" and "SlowDown" in failure.value.why
    assert (
        time.monotonic() - began < wire.SILENCE / 2
    )  # nobody waits for an answer that was read already
    link.faults()
    views = {name: s3.get(bucket, name, 0, 3_000_000, "") for name in large}
    got = dict.fromkeys(large, b"")
    while views:
        for name, view in list(views.items()):
            piece = next(view, None)
            got[name] += bytes(piece or b"")
            if piece is None:
                del views[name]
    assert got == large


def test_a_body_that_was_cut_on_its_way_is_sent_again(server_line, tmp_path):
    server, link, bucket = server_line
    content = os.urandom(9 << 20)
    path = tmp_path / "large"
    path.write_bytes(content)
    link.faults(cut_upload=2, cut_at=1000, methods="PUT")
    s3 = server.s3(link.url)
    for number in range(2):
        s3.put(bucket, f"small{number}", content[:300000])
    s3.put(bucket, "large", str(path))
    link.faults()
    assert {each.key: each.size for each in s3.list(bucket, "")} == {
        "small0": 300000,
        "small1": 300000,
        "large": 9 << 20,
    }
    assert b"".join(map(bytes, s3.get(bucket, "large", 0, 9 << 20, ""))) == content


@pytest.mark.parametrize("says", ["etag", "x-amz-checksum-crc32"])
@pytest.mark.parametrize("better", [True, False])
def test_a_store_that_says_it_has_another_body_is_sent_it_again_and_is_not_believed(says, better):
    """Stores that check nothing answer 200 to what they got a part of, and tell of
    what they have.
    """
    kept = []

    def keep(request):
        kept.append(request.body if kept and better else request.body[:10])
        checksum = b64encode(zlib.crc32(kept[-1]).to_bytes(4, "big")).decode()
        return Reply(200, b"", {says: etag(kept[-1]) if says == "etag" else checksum})

    web = WebServer()
    web.odd["/b/k"] = keep
    s3 = s3_here.minio().s3(web.url)
    if better:
        s3.put("b", "k", b"x" * 1000)
        assert list(map(len, kept)) == [10, 1000]
    else:
        with pytest.raises(Failure) as failure:
            s3.put("b", "k", b"x" * 1000)
        assert failure.value.code == "s3.stored_wrong"
    web.close()


def test_a_body_that_never_arrives_as_it_was_sent_is_told_and_nothing_is_left(
    server_line, tmp_path
):
    server, link, bucket = server_line
    path = tmp_path / "large"
    path.write_bytes(os.urandom(9 << 20))
    link.faults(cut_upload=1, cut_at=1000, methods="PUT")
    with pytest.raises(Failure):
        server.s3(link.url, TAO_RETRY_SECONDS="2").put(bucket, "large", str(path))
    s3 = server.s3()
    assert list(s3.list(bucket, "")) == []
    assert uploads(s3, bucket) == 0


@pytest.fixture(params=["versitygw", "minio"])
def server_line(request):
    server = s3_here.SERVERS[request.param]()
    with link_here.Link(server.address) as link:
        yield server, link, server.bucket()


def uploads(s3, bucket):
    return s3.ask("GET", bucket, "", {"uploads": "", "prefix": "large"}).text.count("<Upload>")


def test_uploads_that_a_killed_runner_left_are_swept(server, tmp_path):
    s3, bucket = server.s3(), server.bucket()
    s3.ask("POST", bucket, "large", {"uploads": ""})
    assert uploads(s3, bucket) == 1
    assert sweep(s3, bucket, "large") == 1
    assert uploads(s3, bucket) == 0


def test_an_upload_that_fails_is_given_up(server_line, tmp_path):
    server, link, bucket = server_line
    path = tmp_path / "large"
    path.write_bytes(bytes(20 << 20))
    link.faults(busy=1, match="partNumber=2")
    with pytest.raises(Failure):
        server.s3(link.url, TAO_RETRY_SECONDS="1").put(bucket, "large", str(path))
    assert uploads(server.s3(), bucket) == 0
    assert server.s3().head(bucket, "large") is None


@pytest.mark.parametrize("code", ["InternalError", "AccessDenied"])
def test_an_upload_whose_completion_fails_in_an_answer_that_began_as_a_success_is_not_counted_as_done(
    server_line, tmp_path, code
):
    server, link, bucket = server_line
    path = tmp_path / "large"
    path.write_bytes(bytes(9 << 20))
    late = {
        "expired": s3_here.ACCESS,
        "expired_at": 1,
        "expired_status": 200,
        "expired_code": code,
        "match": "large?uploadId=",
    }
    link.faults(**late)
    with pytest.raises(Failure) as failure:
        server.s3(link.url, TAO_RETRY_SECONDS="1").put(bucket, "large", str(path))
    assert failure.value.code == ("s3.busy" if code == "InternalError" else "s3.denied")
    assert (link.counts["200"] > 2) == (
        code == "InternalError"
    )  # with the one that tried to give it up
    assert server.s3().head(bucket, "large") is None


def test_an_upload_whose_completion_failed_in_such_an_answer_is_completed_by_another_try(
    server_line, tmp_path
):
    server, link, bucket = server_line
    path = tmp_path / "large"
    path.write_bytes(bytes(9 << 20))
    late = {
        "expired": s3_here.ACCESS,
        "expired_at": 1,
        "expired_status": 200,
        "expired_code": "InternalError",
    }
    with called(link.faults) as hook:
        link.faults(**late, methods="POST", match="large?uploadId=", hook=hook.url, hook_at=2)
        version = server.s3(link.url).put(bucket, "large", str(path))
    head = server.s3().head(bucket, "large")
    assert head and (head.size, head.version) == (9 << 20, version)


def test_a_file_that_becomes_shorter_while_it_is_sent_is_not_stored(tmp_path):
    server = s3_here.minio()
    bucket = server.bucket()
    path = tmp_path / "large"
    path.write_bytes(bytes(20 << 20))

    class Shrinking(s3_put.Upload):
        def send_all(self):
            os.truncate(path, 9 << 20)
            super().send_all()

    real, s3_put.Upload = s3_put.Upload, Shrinking
    try:
        with pytest.raises(Changed):
            server.s3().put(bucket, "large", str(path))
    finally:
        s3_put.Upload = real
    assert server.s3().head(bucket, "large") is None
    assert uploads(server.s3(), bucket) == 0


def test_connections_are_kept_for_the_next_request():
    server = s3_here.minio()
    s3, bucket = server.s3(), server.bucket()
    for number in range(20):
        s3.put(bucket, f"k{number}", b"x")
    assert sum(map(len, s3.web.idle.values())) == 1


def test_a_server_that_was_restarted_meanwhile_is_reached_again():
    server = s3_here.Server(s3_here.minio_command, ready="/minio/health/cluster").start()
    try:
        s3, bucket = server.s3(), server.bucket()
        s3.put(bucket, "k", b"x")
        server.stop()
        back = threading.Timer(1.0, server.start)
        back.start()
        assert s3.head(bucket, "k").size == 1
        back.join()
    finally:
        server.end()


def test_nothing_listens_there_is_told_at_once_by_its_own_words():
    s3 = s3_here.minio().s3(f"http://127.0.0.1:{free_port()}", TAO_RETRY_SECONDS="0.1")
    with pytest.raises(Failure) as failure:
        s3.head("bucket", "k")
    assert failure.value.code == "web.refused"


@pytest.mark.parametrize(
    "endpoint", ["minio.example.com:9000", "localhost:9000", "http:/localhost:9000"]
)
def test_an_endpoint_that_is_no_address_is_told_by_the_name_of_its_variable(endpoint):
    with pytest.raises(Failure) as failure:
        S3(Web({"S3_ENDPOINT_URL": endpoint})).head("bucket", "k")
    assert failure.value.code == "s3.endpoint"
    assert failure.value.what == f"S3_ENDPOINT_URL must begin with http:// or https://: {endpoint}"


def test_a_name_that_nobody_knows_is_told():
    host = f"{uuid.uuid4().hex}.invalid"
    s3 = s3_here.minio().s3(f"http://{host}", TAO_RETRY_SECONDS="0.1")
    with pytest.raises(Failure) as failure:
        s3.head("bucket", "k")
    assert (failure.value.code, failure.value.host) == ("web.dns", host)


def test_a_certificate_that_is_not_trusted_is_told_and_not_tried_again():
    s3 = s3_here.minio_tls().s3(AWS_CA_BUNDLE="")
    with pytest.raises(Failure) as failure:
        s3.head("bucket", "k")
    assert failure.value.code == "web.tls"
    assert "AWS_CA_BUNDLE" in failure.value.next


def test_moto_answers_like_the_others():
    server = s3_here.moto()
    s3, bucket = server.s3(), server.bucket()
    s3.put(bucket, "a b/+.txt", b"123")
    head = s3.head(bucket, "a b/+.txt")
    assert [each.key for each in s3.list(bucket, "a b/")] == ["a b/+.txt"]
    assert b"".join(map(bytes, s3.get(bucket, "a b/+.txt", 1, 3, head.version))) == b"23"
    with pytest.raises(Failure) as failure:
        list(s3.list("no-such-bucket-here", ""))
    assert failure.value.code == "s3.no_bucket"
