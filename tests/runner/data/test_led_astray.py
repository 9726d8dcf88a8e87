"""Servers that lead a job elsewhere, never come to an end, or say what makes no sense: told, and no
token goes along.
"""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest

from support.servers.authority_here import authority
from support.servers.endpoint_here import Endpoint
from support.servers.web_server import Reply, WebServer, ranged
from tao_sdk.net import pages
from tao_sdk.net.failure import Failure
from tao_sdk.net.http_file import disposition_name, safe_name
from tao_sdk.net.hub_source import look as look_at_hub
from tao_sdk.net.ngc_source import look as look_at_ngc
from tao_sdk.net.redirects import is_local_address, redirect_target
from tao_sdk.net.s3 import S3
from tao_sdk.net.s3_source import look as look_at_s3
from tao_sdk.net.web import Web
from tao_sdk.net.wire import parse_number

TOKEN = "hf_secret"
DEEP = b"[" * 200_000
HUGE = b"[" + b"9" * 5000 + b"]"


@pytest.fixture
def other():
    server = WebServer()
    yield server
    server.close()


def failure_of(look, *arguments) -> Failure:
    with pytest.raises(Failure) as failure:
        look(*arguments)
    assert TOKEN not in str(failure.value.args)
    return failure.value


def redirect(to):
    return lambda _: Reply(302, b"", {"Location": to})


def own_address() -> str:
    """An address of this machine by which others know it; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.77", 9))
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


# Where a token goes


def test_the_link_to_a_next_page_on_another_port_does_not_get_the_token(hub, other):
    hub.add("org/name", {f"f{number:03}": b"x" for number in range(60)})
    hub.users[TOKEN] = "ann"
    answer = hub.answer
    entry = {"type": "file", "oid": "0" * 40, "size": 1, "path": "last"}
    other.files["/next"] = json.dumps([entry]).encode()

    def elsewhere(request):
        reply = answer(request)
        if "Link" in reply.headers:
            reply.headers["Link"] = f'<{other.url}/next>; rel="next"'
        return reply

    hub.http.RequestHandlerClass.answer = staticmethod(elsewhere)
    found = look_at_hub("hf_model://org/name", "", Web({"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN}))
    assert len(found.sources) == 51
    assert all(f"Bearer {TOKEN}" == each.headers["authorization"] for each in hub.seen)
    assert [each for each in other.seen if "authorization" in each.headers] == [] != other.seen


def test_no_header_that_may_hold_a_secret_goes_to_another_port(web, other):
    web.odd["/x"] = redirect(f"{other.url}/x")
    other.files["/x"] = b"x"
    headers = {
        "authorization": TOKEN,
        "cookie": TOKEN,
        "x-api-key": TOKEN,
        "accept": "a",
        "range": "bytes=0-0",
    }
    Web({}).ask("GET", f"{web.url}/x", headers)
    (asked,) = other.seen
    assert TOKEN not in str(asked) and (asked.headers["accept"], asked.headers["range"]) == (
        "a",
        "bytes=0-0",
    )


def test_what_is_sent_does_not_go_to_another_port(web, other):
    web.odd["/x"] = lambda _: Reply(307, b"", {"Location": f"{other.url}/x"})
    assert failure_of(Web({}).ask, "POST", f"{web.url}/x", {}, b"secret").code == "web.redirect"
    assert not other.seen


def test_https_does_not_lead_to_http(other):
    server = WebServer(authority())
    try:
        server.odd["/x"] = redirect(f"{other.url}/x")
        env = {"SSL_CERT_FILE": str(authority().bundle), "TAO_RETRY_SECONDS": "5"}
        told = failure_of(Web(env).ask, "GET", f"{server.url}/x?sig={TOKEN}")
    finally:
        server.close()
    assert told.code == "web.redirect" and not other.seen


@pytest.mark.parametrize(
    "to",
    [
        "ftp://h/x",
        "file:///etc/passwd",
        "http:///x",
        "gopher://127.0.0.1:1/x",
        "/a\x0bb",
        "http://h\x7f/",
    ],
)
def test_addresses_of_another_kind_are_not_followed(web, to):
    web.odd["/x"] = redirect(to)
    assert failure_of(Web({}).ask, "GET", f"{web.url}/x").code == "web.redirect"


def test_a_server_of_elsewhere_does_not_lead_to_this_machine(other):
    here = own_address()
    if here.startswith("127."):
        pytest.skip("this machine has no other address")
    there = WebServer()
    there.http.server_close()
    there.http.socket = socket.create_server((here, 0))
    there.http.server_address = there.http.socket.getsockname()
    threading.Thread(
        target=there.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    ).start()
    url = f"http://{here}:{there.http.server_address[1]}"
    for host in ("127.0.0.1", "localhost", "0.0.0.0", "127.1"):
        there.odd["/x"] = redirect(f"http://{host}:{other.http.server_address[1]}/x")
        assert failure_of(Web({}).ask, "GET", f"{url}/x").code == "web.redirect"
    there.files["/y"] = b"y"
    there.odd["/z"] = redirect(f"{url}/y")
    assert Web({}).ask("GET", f"{url}/z").body == b"y"
    other.odd["/x"] = redirect(f"{url}/y")
    assert Web({}).ask("GET", f"{other.url}/x").body == b"y"
    there.http.shutdown()
    assert not other.asked("/x")[1:]


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1"]
)
def test_a_server_behind_a_proxy_does_not_lead_to_this_machine(web, host):
    web.odd["http://example.invalid/x"] = web.odd["/x"] = redirect(f"http://{host}/secret")
    env = {"http_proxy": web.url, "TAO_RETRY_SECONDS": "1"}
    told = failure_of(Web(env).ask, "GET", "http://example.invalid/x")
    assert (told.code, len(web.seen)) == ("web.redirect", 1)


def test_addresses_of_this_machine_are_known_in_every_way_of_writing_them():
    here = [
        "127.0.0.1",
        "127.9.9.9",
        "169.254.170.2",
        "0.0.0.0",
        "::1",
        "::",
        "fe80::1",
        "::ffff:127.0.0.1",
        "fd00:ec2::254",
    ]
    assert all(map(is_local_address, here))
    assert not any(
        map(
            is_local_address,
            ["10.0.0.1", "128.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", "example.com", "fd00::1"],
        )
    )


def test_a_relative_address_and_one_with_blanks_are_followed():
    assert redirect_target("https://h/a/b?c", "d e") == "https://h/a/d%20e"


# What gets into a request


@pytest.mark.parametrize("name", ["HF_TOKEN", "HF_ENDPOINT"])
def test_a_token_or_an_address_with_the_end_of_a_line_in_it_is_not_sent(hub, name):
    hub.add("org/name", {"x": b"x"})
    env = {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "TAO_RETRY_SECONDS": "1"}
    env[name] = env[name] + "\r\nx-injected: 1"
    told = failure_of(look_at_hub, "hf_model://org/name", "", Web(env))
    assert told.code == "web.request" and not hub.seen


def test_keys_of_s3_with_the_end_of_a_line_in_them_are_not_sent(web):
    env = {
        "S3_ENDPOINT_URL": web.url,
        "AWS_ACCESS_KEY_ID": "a\r\nx: 1",
        "AWS_SECRET_ACCESS_KEY": "s",
    }
    assert failure_of(look_at_s3, "s3://bucket/k", "", Web(env)).code == "web.request"
    assert not web.seen


@pytest.mark.slow
@pytest.mark.parametrize(
    "bucket", ["127.0.0.1:{port}#", "a:{port}", "b#c", "b?c", "user@host", "b\r\nx", "..", ""]
)
@pytest.mark.parametrize("style", ["path", "virtual"])
def test_a_bucket_that_would_become_another_host_is_refused(web, other, bucket, style):
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": TOKEN}
    env = {
        "S3_ENDPOINT_URL": web.url,
        "S3_ADDRESSING_STYLE": style,
        "TAO_RETRY_SECONDS": "1",
        **keys,
    }
    name = bucket.format(port=other.http.server_address[1])
    assert failure_of(S3(Web(env)).head, name, "k").code == "s3.bucket_name"
    assert not (web.seen or other.seen)


@pytest.mark.slow
def test_who_gives_keys_is_not_asked_through_a_proxy(web):
    keys = {"AccessKeyId": "a", "SecretAccessKey": "s", "Token": TOKEN}
    words = {
        "/latest/api/token": "a-token",
        "/latest/meta-data/iam/security-credentials/": "a-role",
    }
    with Endpoint(lambda _, path, *rest: (200, words.get(path) or json.dumps(keys))) as endpoint:
        proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy", "HTTPS_PROXY"), web.url)
        of_container = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": endpoint.url,
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": TOKEN,
        }
        of_instance = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint.url}
        for env in (of_container, of_instance):
            S3(Web({**env, **proxies})).credentials.current_keys()
        assert len(endpoint.asked) == 4 and not web.seen


def test_who_gives_keys_leads_nowhere_else(web, other):
    web.odd["/keys"] = redirect(f"{other.url}/keys")
    env = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{web.url}/keys",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": TOKEN,
    }
    assert failure_of(S3(Web(env)).credentials.current_keys).code == "s3.credentials"
    assert not other.seen


# Lists without an end


def listing(*keys, token="", more=True):
    contents = "".join(
        f"<Contents><Key>{key}</Key><Size>1</Size><ETag>e</ETag></Contents>" for key in keys
    )
    going_on = (
        f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
        if more
        else ""
    )
    return f"<ListBucketResult>{contents}{going_on}</ListBucketResult>".encode()


@pytest.mark.parametrize("kind", ["the same token", "the same page", "empty pages"])
def test_a_list_in_s3_without_an_end_is_told(web, monkeypatch, kind):
    monkeypatch.setattr(pages, "MOST_PAGES", 20)
    env = {"S3_ENDPOINT_URL": web.url, "TAO_RETRY_SECONDS": "1"}

    def page(request):
        token = "t" if kind == "the same token" else str(len(web.seen))
        return Reply(
            200,
            listing(
                *([] if kind == "empty pages" else [f"k{token}"[: len(kind) % 3 + 1]]), token=token
            ),
        )

    web.odd["/bucket"] = page
    told = failure_of(lambda: list(S3(Web(env)).list("bucket", "")))
    assert told.code == "s3.listing" and "no end" in told.what and len(web.seen) < 30


def test_a_list_of_a_hub_without_an_end_is_told(hub):
    hub.add("org/name", {"x": b"x"})
    answer = hub.answer

    def again(request):
        reply = answer(request)
        if "/tree/" in request.path:
            reply.headers["Link"] = f'<{hub.url}{request.path}?again>; rel="next"'
        return reply

    hub.http.RequestHandlerClass.answer = staticmethod(again)
    told = failure_of(look_at_hub, "hf_model://org/name", "", Web({"HF_ENDPOINT": hub.url}))
    assert told.code == "hub.failed" and "no end" in told.what


def ngc_env(ngc):
    return {
        "NGC_CLI_API_URL": ngc.url,
        "NGC_CLI_AUTH_URL": ngc.login,
        "NGC_KEY": "nvapi-acme",
        "TAO_RETRY_SECONDS": "1",
    }


def test_a_list_of_ngc_without_an_end_is_told(ngc):
    ngc.add("acme/dino", {"1": {"x": b"x"}})
    answer = ngc.answer

    def more(request):
        reply = answer(request)
        if request.path.endswith("/files"):
            told = {
                "modelFiles": [{"path": "x", "sizeInBytes": 1}],
                "paginationInfo": {"totalPages": 10**12},
            }
            reply.body = json.dumps(told).encode()
            reply.headers.pop("Content-Length", None)
        return reply

    ngc.http.RequestHandlerClass.answer = staticmethod(more)
    told = failure_of(look_at_ngc, "ngc://acme/dino:1", "", Web(ngc_env(ngc)))
    assert told.code == "ngc.failed" and "no end" in told.what


# Words that make no sense

WORDS = {
    "deep": DEEP,
    "huge": HUGE,
    "bytes": b'"\xff\xfe"',
    "a list": b"[1]",
    "a word": b'"x"',
    "null": b"null",
    "a record of others": b'{"sha": 7, "modelFiles": 7, "urls": [7], "model": []}',
    "no path": b'[{"type": "file", "oid": "1", "size": 1}]',
    "sizes": b'[{"type": "file", "path": "x", "oid": "1", "size": 1e999}]',
    "large": b"[" + b" " * (17 << 20) + b"]",
}


@pytest.mark.parametrize("where", ["/revision/", "/tree/", "/paths-info/"])
@pytest.mark.parametrize("words", WORDS)
def test_a_hub_that_says_what_makes_no_sense_is_told(hub, where, words):
    hub.add("org/name", {"x": b"x"})
    answer = hub.answer
    hub.http.RequestHandlerClass.answer = staticmethod(
        lambda request: Reply(200, WORDS[words]) if where in request.path else answer(request)
    )
    uri = "hf_model://org/name" + ("/x" if where == "/paths-info/" else "")
    assert failure_of(look_at_hub, uri, "", Web({"HF_ENDPOINT": hub.url})).code == "hub.failed"


@pytest.mark.parametrize("where", ["/models/dino", "/files", "the link"])
@pytest.mark.parametrize("words", WORDS)
def test_an_ngc_that_says_what_makes_no_sense_is_told(ngc, where, words):
    ngc.add("acme/dino", {"1": {"x": b"x"}})
    answer = ngc.answer

    def odd(request):
        link = request.path.endswith("/files") and "path=" in request.query
        asked = link if where == "the link" else request.path.endswith(where) and not link
        return Reply(200, WORDS[words]) if asked else answer(request)

    ngc.http.RequestHandlerClass.answer = staticmethod(odd)

    def fetch():
        (source,) = look_at_ngc(
            "ngc://acme/dino" + (":1" if where != "/models/dino" else ""), "", Web(ngc_env(ngc))
        ).sources
        list(source.read(0, 1))

    assert failure_of(fetch).code in ("ngc.failed", "input.nothing")


def test_ngc_does_not_lead_to_another_kind_of_address(ngc):
    ngc.add("acme/dino", {"1": {"x": b"x"}})
    answer = ngc.answer

    def odd(request):
        return (
            Reply(200, b'{"urls": ["ftp://h/x"]}') if "path=" in request.query else answer(request)
        )

    ngc.http.RequestHandlerClass.answer = staticmethod(odd)
    (source,) = look_at_ngc("ngc://acme/dino:1", "", Web(ngc_env(ngc))).sources
    assert failure_of(lambda: list(source.read(0, 1))).code == "web.redirect"


@pytest.mark.parametrize("size", ["", "x", "-1", "1" * 5000, "1e9", "\u00b2"])
def test_a_store_that_does_not_say_how_large_an_object_is_is_told(web, size):
    page = listing("k", more=False).decode().replace("<Size>1<", f"<Size>{size}<")
    web.odd["/bucket"] = lambda _: Reply(200, page.encode())
    env = {"S3_ENDPOINT_URL": web.url, "TAO_RETRY_SECONDS": "1"}
    assert failure_of(lambda: list(S3(Web(env)).list("bucket", ""))).code == "s3.listing"


@pytest.mark.parametrize(
    "number", ["99999999999", "x110000", "x-1", "", "\u00b2", "x" + "9" * 5000]
)
def test_characters_that_do_not_exist_are_no_crash(web, number):
    web.odd["/bucket"] = lambda _: Reply(200, listing(f"a&#{number};b", more=False))
    (entry,) = S3(Web({"S3_ENDPOINT_URL": web.url})).list("bucket", "")
    assert entry.key.startswith("a") and entry.key.endswith("b")


@pytest.mark.parametrize(
    "head",
    [
        "content-length: \u00b2",
        "content-length: " + "9" * 5000,
        "content-length: 0\r\nretry-after: \u00b2",
        "transfer-encoding: chunked\r\n\r\n-5",
        "transfer-encoding: chunked\r\n\r\n0x5",
        "transfer-encoding: chunked\r\n\r\n1_0",
        "location: http://127.0.0.1:99999/\r\ncontent-length: 0",
        "location: http://127.0.0.1:\u00b2/\r\ncontent-length: 0",
    ],
)
def test_numbers_of_a_server_that_are_none_are_no_crash(head):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    client = server.accept()[0]
                except OSError:
                    return
                with client:
                    client.recv(65536)
                    client.sendall(
                        f"HTTP/1.1 {302 if 'location' in head else 503} x\r\n{head}\r\n\r\n".encode(
                            "latin-1"
                        )
                    )

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        try:
            answer = Web({"TAO_RETRY_SECONDS": "0.001"}).ask("GET", url)
        except Failure as failure:
            assert failure.code.startswith("web.")
        else:
            assert answer.status == 503


@pytest.mark.parametrize("endless", ["answers before the answer", "lines behind the last chunk"])
def test_an_answer_that_is_never_over_is_given_up(endless):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            client = server.accept()[0]
            with client:
                client.recv(65536)
                try:
                    if endless == "answers before the answer":
                        while True:
                            client.sendall(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
                    client.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n")
                    while True:
                        client.sendall(b"a: b\r\n" * 100)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        assert failure_of(Web({"TAO_RETRY_SECONDS": "0.001"}).ask, "GET", url).code == "web.broken"


def test_numbers_are_read_as_servers_write_them():
    assert [parse_number(text) for text in ("0", "17", "-1", "", "\u00b2", "1" * 30)] == [
        0,
        17,
        -1,
        -1,
        -1,
        -1,
    ]


# Names that a server chose


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ('a; filename="x\r\ny.bin"', "xy.bin"),
        ("a; filename*=UTF-8''a%0Ab%1B%5B2J.bin", "ab[2J.bin"),
        ('a; filename="$(touch x)`id`|rm -rf .bin"', "_(touch x)_id__rm -rf .bin"),
        ('a; filename="..\\\\..\\\\x"', "x"),
        ('a; filename="..hidden"', "hidden"),
        ('a; filename="..."', ""),
        ("a; filename*=UTF-8''%2e%2e%2fx", "x"),
        ("a; filename*=UTF-8''x%E2%80%AEgpj.exe", "xgpj.exe"),
        ('a; filename="x.tao-part"', ""),
        ('a; filename="' + "\u6a21" * 300 + '"', "\u6a21" * 66),
        ('a; filename="weights (1) v2.pth"', "weights (1) v2.pth"),
    ],
)
def test_a_name_that_a_server_chose_is_a_plain_one(said, name):
    assert disposition_name(said) == name and len(safe_name(said).encode()) <= 255


def test_the_last_name_of_an_address_is_a_plain_one(paths, web):
    web.files["/a%0a%24(b).bin"] = b"x"
    found = Path(paths({"x": f"{web.url}/a%0a%24(b).bin"})["x"])
    assert found.name == "a_(b).bin" and found.read_bytes() == b"x"


def test_a_long_name_of_a_server_is_no_reason_to_fail(paths, web):
    web.odd["/x"] = lambda request: ranged(
        request,
        b"x",
        {"Content-Disposition": "a; filename*=UTF-8''" + "%E6%A8%A1" * 200, "ETag": '"1"'},
    )
    assert Path(paths({"x": f"{web.url}/x"})["x"]).read_bytes() == b"x"
