"""Proxies: which requests go through one, and what is told when one fails."""

from __future__ import annotations

import socket
import threading

import pytest

from support.servers import s3_here
from support.servers.fixed_answers import FixedAnswers
from tao_sdk.net.failure import Failure
from tao_sdk.net.proxy import is_excepted, proxy_for
from tao_sdk.net.web import Web


class Tunnel:
    """A proxy that knows CONNECT."""

    def __init__(self):
        self.asked, self.heads = [], []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client = self.socket.accept()[0]
            except OSError:
                return
            head = client.recv(65536).decode()
            self.heads.append(head)
            self.asked.append(head.splitlines()[0])
            host, _, port = head.split()[1].rpartition(":")
            server = socket.create_connection((host, int(port)))
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self.pass_on, args=(one, other), daemon=True).start()

    def pass_on(self, one, other):
        while data := one.recv(65536):
            other.sendall(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


@pytest.mark.network
def test_https_goes_through_a_proxy_and_http_is_asked_of_it():
    server = s3_here.minio_tls()
    with Tunnel() as tunnel:
        bucket = server.bucket()
        s3 = server.s3(HTTPS_PROXY=f"http://user:p%40ss@127.0.0.1:{tunnel.port}")
        s3.put(bucket, "k", b"x")
        assert tunnel.asked == [f"CONNECT {server.address} HTTP/1.1"]
        assert "proxy-authorization: Basic dXNlcjpwQHNz" in tunnel.heads[0]
        server.s3(HTTPS_PROXY=f"http://127.0.0.1:{tunnel.port}", NO_PROXY="127.0.0.0/8").head(
            bucket, "k"
        )
        assert len(tunnel.asked) == 1
    plain = FixedAnswers(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    Web({"http_proxy": plain.url}).ask("GET", "http://example.invalid/a?b")
    assert plain.asked[0].startswith(
        "GET http://example.invalid/a?b HTTP/1.1\r\nhost: example.invalid"
    )


LOGIN = (
    b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: "
    b"Basic\r\ncontent-length: 0\r\n\r\n"
)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("given", ["", "me:hunter2@"])
def test_a_proxy_that_wants_a_login_is_told_at_once_as_the_proxy(scheme, given):
    proxy = FixedAnswers(LOGIN)
    address = proxy.url.partition("://")[2]
    with pytest.raises(Failure) as failure:
        Web({f"{scheme}_proxy": f"http://{given}{address}"}).ask(
            "GET", f"{scheme}://store.example.org/k"
        )
    said = failure.value
    assert (said.code, address in said.what, "store.example.org" in said.what) == (
        "web.proxy",
        True,
        True,
    )
    assert f"{scheme.upper()}_PROXY" in said.next and "login" in said.what
    assert "hunter2" not in str(said)
    assert len(proxy.asked) == 1


def test_a_proxy_that_lets_nobody_through_is_told_at_once():
    proxy = FixedAnswers(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
    with pytest.raises(Failure) as failure:
        Web({"https_proxy": proxy.url}).ask("GET", "https://store.example.org/k")
    assert (failure.value.code, "403" in failure.value.why) == ("web.proxy", True)
    assert proxy.url.partition("://")[2] in failure.value.what


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("dead", ["127.0.0.1:9", "no-such-proxy.invalid:3128", "a..b:3128"])
def test_a_proxy_that_is_not_there_is_told_as_the_proxy_and_not_as_the_server(scheme, dead):
    told, web = [], Web({"all_proxy": f"http://me:hunter2@{dead}", "TAO_RETRY_SECONDS": "3"})
    web.tell = lambda event, **facts: told.append((event, facts["host"]))
    with pytest.raises(Failure) as failure:
        web.ask("GET", f"{scheme}://127.0.0.1/k")
    said = failure.value
    assert (said.code, f"The proxy {dead}" in said.what) == ("web.proxy", True)
    assert "NO_PROXY" in said.next
    assert "hunter2" not in str(said)
    assert set(told) <= {("waiting", dead)}


def test_a_proxy_that_does_not_speak_http_is_told_as_the_proxy():
    proxy = FixedAnswers(
        b"\x05\xff" * 50 + b"\r\n\r\n", b"\x05\xff" * 50 + b"\r\n\r\n", b"\x05\xff\r\n\r\n"
    )
    with pytest.raises(Failure) as failure:
        Web({"https_proxy": proxy.url, "TAO_RETRY_SECONDS": "0.5"}).ask(
            "GET", "https://store.example.org/k"
        )
    assert (failure.value.code, proxy.url.partition("://")[2] in failure.value.what) == (
        "web.proxy",
        True,
    )


@pytest.mark.parametrize(
    ("host", "exceptions", "excepts"),
    [
        ("a.example.org", "example.org", True),
        ("a.example.org", ".example.org", True),
        ("a.example.org", "*.example.org", True),
        ("badexample.org", "example.org", False),
        ("x", "*", True),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("h", "h:81", False),
        ("h", "g, h:80", True),
    ],
)
def test_no_proxy(host, exceptions, excepts):
    assert is_excepted(host, 80, exceptions) is excepts
    assert (
        proxy_for(("http", host, 80), {"HTTP_PROXY": "http://p:1", "NO_PROXY": exceptions}) is None
    ) is excepts


def test_what_gives_keys_to_this_machine_alone_is_not_asked_through_a_proxy():
    for host in ("169.254.170.2", "169.254.169.254"):
        assert proxy_for(("http", host, 80), {"http_proxy": "http://p:1"}) is None
