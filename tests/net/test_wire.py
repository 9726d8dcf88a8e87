"""One connection: its address, and the pieces in which an answer's bytes are passed on."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest

from support.servers.authority_here import authority
from tao_sdk.net import wire
from tao_sdk.net.wire import Connection, TlsTrust, split_url

RECORD = 16 << 10  # bytes that TLS gives at a time


def server(give) -> int:
    """The port of a server that answers one connection's request by `give(connection)`."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        with listening, listening.accept()[0] as plain:
            give(plain)

    threading.Thread(target=serve, daemon=True).start()
    return listening.getsockname()[1]


def pieces(scheme: str, port: int, trust: TlsTrust):
    """The bytes of the answer to a GET, in the pieces in which they are passed on."""
    line = Connection((scheme, "127.0.0.1", port), None, trust)
    try:
        assert line.request("GET", "/", {}, b"")[0] == 200
        yield from map(bytes, line.read_body())
    finally:
        line.close()


def test_what_tls_gives_in_small_pieces_is_passed_on_in_large_ones():
    size = 256 * RECORD

    def give(plain: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority().cert, authority().key)
        with context.wrap_socket(plain, server_side=True) as secure:
            secure.recv(RECORD)
            secure.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + bytes(size))

    passed_on = list(
        pieces("https", server(give), TlsTrust({"SSL_CERT_FILE": str(authority().bundle)}))
    )
    assert sum(map(len, passed_on)) == size
    assert len(passed_on) < size / RECORD / 2


@pytest.mark.slow
def test_what_came_before_a_line_fell_silent_is_passed_on(monkeypatch):
    monkeypatch.setattr(wire, "SILENCE", 0.5)
    over = threading.Event()

    def give(plain: socket.socket) -> None:
        plain.recv(RECORD)
        plain.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n")
        plain.sendall(b"x" * 10)
        over.wait(120)

    passed_on: list[bytes] = []
    with pytest.raises(OSError, match="timed out"):
        passed_on.extend(pieces("http", server(give), TlsTrust({})))
    over.set()
    assert b"".join(passed_on) == b"x" * 10


def test_addresses_are_taken_apart():
    assert split_url("https://u:p@Host.example/a%20b?c#d") == (
        ("https", "host.example", 443),
        "/a%20b?c",
    )
    assert split_url("http://[::1]:8080") == (("http", "::1", 8080), "/")
    assert split_url("http://h?q=1/2") == (("http", "h", 80), "/?q=1/2")
