"""HTTP as the runner speaks it: proxies, redirects, odd servers."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from types import SimpleNamespace

import pytest

from support.servers import link_here, s3_here
from support.servers.ports import free_port
from support.servers.web_server import Reply, WebServer
from tao_sdk.net import retries
from tao_sdk.net.failure import Failure
from tao_sdk.net.proxy import is_excepted, proxy_for
from tao_sdk.net.redirects import is_local_address, resolve_location
from tao_sdk.net.web import Web
from tao_sdk.net.wire import split


class Lines:
    """A server that answers each connection's requests with given bytes, and keeps what it was
    sent.
    """

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.asked = list(answers), []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while self.answers:
            client = self.socket.accept()[0]
            with client:
                data = b""
                while self.answers and (more := client.recv(65536)):
                    data += more
                    while b"\r\n\r\n" in data and self.answers:
                        head, _, data = data.partition(b"\r\n\r\n")
                        self.asked.append(head.decode())
                        client.sendall(self.answers.pop(0))


def test_an_authorization_is_not_carried_to_another_host():
    there = Lines(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    here = Lines(
        b"HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n",
        f"HTTP/1.1 302 Found\r\nlocation: {there.url}/x\r\ncontent-length: 0\r\n\r\n".encode(),
    )
    answer = Web({}).ask("GET", here.url + "/y", {"authorization": "Bearer secret", "accept": "x"})
    assert (answer.status, answer.body) == (200, b"ok")
    assert "Bearer secret" in here.asked[1]
    assert "Bearer" not in there.asked[0] and "accept: x" in there.asked[0]


def test_a_patience_that_is_no_number_counts_as_not_given():
    assert Web({"TAO_RETRY_SECONDS": "5m"}).patience == Web({}).patience
    assert Web({"TAO_RETRY_SECONDS": "0.5"}).patience == 0.5


def test_redirects_without_an_end_are_told():
    here = Lines(*[b"HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n"] * 40)
    with pytest.raises(Failure) as failure:
        Web({"TAO_RETRY_SECONDS": "0.1"}).ask("GET", here.url)
    assert "redirects" in failure.value.why


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: "
            b"chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\ntrailer: x\r\n\r\n"
        ),
        b"HTTP/1.0 200 OK\r\n\r\nhello",
    ],
)
def test_bodies_of_every_kind_are_read(answer):
    assert Web({}).ask("GET", Lines(answer).url).body == b"hello"


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH_9.6\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhe", b""],
)
def test_what_is_no_http_or_no_whole_answer_is_told(answer):
    with pytest.raises(Failure) as failure:
        Web({"TAO_RETRY_SECONDS": "0.001"}).ask("GET", Lines(answer).url)  # it is asked once
    assert failure.value.code == "web.broken"


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
    plain = Lines(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
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
    proxy = Lines(LOGIN)
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
    proxy = Lines(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
    with pytest.raises(Failure) as failure:
        Web({"https_proxy": proxy.url}).ask("GET", "https://store.example.org/k")
    assert (failure.value.code, "403" in failure.value.why) == ("web.proxy", True)
    assert proxy.url.partition("://")[2] in failure.value.what


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
    proxy = Lines(
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
def test_a_connection_that_broke_in_mid_answer_is_asked_again():
    minio = s3_here.minio()
    bucket = minio.bucket()
    minio.s3().put(bucket, "k", b"x" * 1000)
    with link_here.Link(minio.address) as link:
        link.faults(reset=2, cut_at=10, methods="GET")
        s3 = minio.s3(link.url)
        for _ in range(3):
            assert len(list(s3.list(bucket, ""))) == 1


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


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("127.1", True),
        ("::1", True),
        ("0:0:0:0:0:0:0:1", True),
        ("::ffff:7f00:1", True),
        ("::FFFF:a9fe:a9fe", True),
        ("::ffff:127.0.0.1", True),
        ("fe80::1", True),
        ("::ffff:808:808", False),
        ("2001:db8::1", False),
        ("8.8.8.8", False),
        ("host.example", False),
    ],
)
def test_this_machine_is_known_in_every_way_to_write_its_address(address, here):
    assert is_local_address(address) is here


def test_addresses_are_taken_apart():
    assert split("https://u:p@Host.example/a%20b?c#d") == (
        ("https", "host.example", 443),
        "/a%20b?c",
    )
    assert split("http://[::1]:8080") == (("http", "::1", 8080), "/")
    assert split("http://h?q=1/2") == (("http", "h", 80), "/?q=1/2")
    assert resolve_location("http://h/a/b?c", "d") == "http://h/a/d"
    assert resolve_location("http://h/a/b", "//g/x") == "http://g/x"
    assert resolve_location("http://h:81/a/b?c", "/d?e") == "http://h:81/d?e"
    assert (
        resolve_location("http://[::1]:8080/a", "d?to=http://g")
        == "http://[::1]:8080/d?to=http://g"
    )


@pytest.mark.parametrize("start", ["/a/b", "/a/b?q=1/2", "?q=1/2"])
def test_a_redirect_may_name_a_query_alone_and_leads_where_it_leads_others(start):
    def answer(request):
        led = request.query == "c=1/2"
        return Reply(200, request.path.encode()) if led else Reply(302, b"", {"location": "?c=1/2"})

    server = WebServer()
    server.odd.update(dict.fromkeys(["/", "/a/", "/a/b"], answer))
    with urllib.request.urlopen(server.url + start) as others:
        assert Web({}).ask("GET", server.url + start).body == others.read()
    server.close()


def test_pauses_between_tries_grow_differ_from_anybody_elses_and_are_as_long_as_the_server_asks(
    monkeypatch,
):
    slept = []
    monkeypatch.setattr(
        retries, "time", SimpleNamespace(monotonic=time.monotonic, sleep=slept.append)
    )
    one, other = retries.Patience(300), retries.Patience(300)
    assert all(each.wait() for _ in range(8) for each in (one, other))
    ours, theirs = slept[::2], slept[1::2]
    assert ours != theirs
    assert max(ours[:3]) < min(ours[5:]) and max(ours) <= retries.LONGEST_PAUSE
    busy = Lines(
        b"HTTP/1.1 503 Slow Down\r\nretry-after: 20\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    )
    assert Web({}).ask("GET", busy.url).status == 200
    assert slept[-1] == 20
    assert not retries.Patience(1).wait(least=2)


def test_a_server_that_does_not_answer_is_told_of_once_while_it_is_waited_for():
    told = []
    asking = Web({"TAO_RETRY_SECONDS": "3"})
    asking.tell = lambda event, **facts: told.append((event, facts))
    address = f"127.0.0.1:{free_port()}"
    for _ in range(2):
        with pytest.raises(Failure):
            asking.ask("GET", f"http://{address}/")
    assert told == [("waiting", {"host": address})]


@pytest.mark.parametrize(
    "host", [".s3.example.com", "a" * 64 + ".example.com", "a..b", "\udcff.example.com"]
)
@pytest.mark.parametrize(
    "proxy, code", [("", "web.dns"), ("http://" + "p" * 64 + ".example.com", "web.proxy")]
)
def test_a_name_that_no_host_can_have_is_told_as_one_that_nobody_knows(host, proxy, code):
    with pytest.raises(Failure) as failure:
        Web({"https_proxy": proxy, "TAO_RETRY_SECONDS": "0.1"}).ask("GET", f"https://{host}/")
    assert failure.value.code == code
    assert failure.value.why == "invalid host name or port."


def test_a_name_that_nobody_knows_is_told_soon():
    """Long before the time is up that a server has which does not answer."""
    began = time.monotonic()
    with pytest.raises(Failure) as failure:
        Web({}).ask("GET", "http://no-such-host.invalid/")
    assert failure.value.code == "web.dns"
    assert time.monotonic() - began < retries.STRANGER / 2
