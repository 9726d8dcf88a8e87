"""Requests over connections that are kept, against a small server of the test's own, and answers
that break off.
"""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

import pytest

from tao_sdk.model.errors import Unreachable
from tao_sdk.transports.dockerd import Address, Daemon, DaemonError
from tao_sdk.transports.http_session import request_target

VERSION = b'{"ApiVersion": "1.41"}'


class Served:
    """A daemon that answers every request with `body`, and what it was asked."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.paths: list[str] = []
        self.connections: set[tuple[str, int]] = set()
        self.lines: list[socket.socket] = []
        self.is_chunked = False


@contextmanager
def serving(body: bytes = b"{}", length: int | None = None) -> Generator[tuple[Served, Daemon]]:
    served = Served(body)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            served.paths.append(self.path)
            served.connections.add(self.client_address)
            served.lines.append(self.connection)
            answer = VERSION if self.path == "/version" else served.body
            self.send_response(404 if "missing" in self.path else 200)
            if served.is_chunked and answer is not VERSION:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(answer + b"0\r\n\r\n")
                return
            declared = len(answer) if length is None or answer is VERSION else length
            self.send_header("Content-Length", str(declared))
            self.end_headers()
            self.wfile.write(answer)
            self.close_connection = declared != len(answer)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    daemon = Daemon(Address(f"tcp://127.0.0.1:{server.server_port}"))
    try:
        yield served, daemon
    finally:
        daemon.close()
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_requests_in_a_row_use_one_connection() -> None:
    with serving() as (served, daemon):
        for _ in range(3):
            assert daemon.get("/info") == {}
        with pytest.raises(DaemonError):
            daemon.get("/missing")
        assert daemon.get("/info") == {}
        assert len(served.connections) == 1


@pytest.mark.slow
@pytest.mark.parametrize("chunks", [b"", b"3\r\nabc\r\n1\r\nd\r\n"])
def test_a_stream_that_has_ended_leaves_its_connection_to_the_next_request(chunks: bytes) -> None:
    with serving(chunks, length=None) as (served, daemon):
        served.is_chunked = True
        for _ in range(2):
            with daemon.stream("/logs") as blocks:
                assert b"".join(blocks) == (b"abcd" if chunks else b"")
        assert len(served.connections) == 1


@pytest.mark.slow
def test_a_stream_that_was_left_in_the_middle_gives_no_rest_to_the_next_request() -> None:
    with serving(b"3\r\nabc\r\n" * 1000) as (served, daemon):
        served.is_chunked = True
        with daemon.stream("/logs") as blocks:
            assert next(iter(blocks)).startswith(b"abc")
        served.is_chunked, served.body = False, b"{}"
        assert daemon.get("/info") == {}


@pytest.mark.slow
def test_a_connection_that_the_daemon_has_closed_is_not_used_again() -> None:
    with serving() as (served, daemon):
        daemon.get("/info")
        for line in served.lines:
            with suppress(OSError):  # the server itself has closed it
                line.shutdown(socket.SHUT_RDWR)
        assert daemon.get("/info") == {}


@pytest.mark.slow
def test_requests_of_several_threads_do_not_mix_up_their_answers() -> None:
    with serving(b'"x"' + b" " * 100_000) as (_, daemon):
        said: list[object] = []
        threads = [
            threading.Thread(target=lambda: said.append(daemon.get("/info"))) for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert said == ["x"] * 20


@pytest.mark.slow
def test_an_answer_that_ends_before_its_length_is_not_taken_for_whole() -> None:
    with serving(b"{}", length=50) as (_, daemon):
        with pytest.raises(Unreachable, match="broke"):
            daemon.get("/info")
        answer = daemon.request("GET", "/archive", timeout=10, stream=True)
        assert answer.raw.read(10) == b"{}"
        with pytest.raises(Unreachable, match="broke"):
            answer.raw.read(10)
        answer.close()


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("/images/a/b:1@sha256:0/json", "/images/a/b:1@sha256:0/json"),
        ("/networks/a b\r\nX: y", "/networks/a%20b%0D%0AX:%20y"),
        ("/networks/a?force=1#b", "/networks/a%3Fforce=1%23b"),
        ("/networks/ü", "/networks/%C3%BC"),
    ],
)
def test_a_name_in_a_path_cannot_become_another_request(path: str, written: str) -> None:
    assert request_target(path, None) == written
    assert request_target(path, {"a": "x&y", "b": None}) == f"{written}?a=x%26y"
