"""A web server of our own for the tests: files with ranges, ETags, dates, redirects and logins, as
real ones have them.

Here: what is common to the servers of this folder, and the plain one. `Files` is what a server
serves, changed by the tests while it runs; `seen` is what it was asked.
"""

from __future__ import annotations

import hashlib
import re
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from support.servers.authority_here import Authority


@dataclass
class Request:
    """What a client asked."""

    method: str
    path: str  # without the query
    query: str
    headers: dict[str, str]
    body: bytes = b""


@dataclass
class Reply:
    """What it is answered; `cut`: so many bytes of the body are sent, then the connection is
    broken.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = -1


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer: Callable[[Request], Reply]
    seen: list[Request]

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(6, 1, 1)  # TCP_NODELAY

    def handle_any(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, url.path, url.query, headers, body)
        self.seen.append(request)
        reply = type(self).answer(request)
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if "content-length" not in {name.lower() for name in reply.headers}:
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if reply.cut >= 0:
            self.wfile.write(reply.body[: reply.cut])
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(reply.body)

    do_GET = do_HEAD = do_POST = do_PUT = handle_any  # noqa: N815

    def log_message(self, *_: object) -> None:
        """The test says what it needs to."""


class Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no error of the server."""


class Server:
    """Answers on a port of its own until it is closed. A subclass gives `answer`."""

    def __init__(self, tls: Authority | None = None, host: str = "127.0.0.1") -> None:
        self.seen: list[Request] = []
        handler = type(
            "Bound", (Handler,), {"answer": staticmethod(self.answer), "seen": self.seen}
        )
        self.http = Quiet((host, 0), handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.cert, tls.key)
            self.http.socket = context.wrap_socket(
                self.http.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"{'https' if tls else 'http'}://{host}:{self.http.server_address[1]}"
        self.thread = threading.Thread(
            target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self.thread.start()

    def answer(self, request: Request) -> Reply:
        raise NotImplementedError

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def asked(self, text: str) -> list[Request]:
        """The requests whose path holds a text."""
        return [each for each in self.seen if text in each.path]


def ranged(request: Request, content: bytes, headers: dict[str, str]) -> Reply:
    """The content, or the range of it that was asked for and still is of this version."""
    wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
    condition = request.headers.get("if-range")
    headers = {"Accept-Ranges": "bytes", **headers}
    if not wanted or (condition and condition not in headers.values()):
        return Reply(200, content, headers)
    start, stop = int(wanted[1]), int(wanted[2] or len(content) - 1) + 1
    if start >= len(content):
        return Reply(416, b"", {**headers, "Content-Range": f"bytes */{len(content)}"})
    stop = min(stop, len(content))
    return Reply(
        206,
        content[start:stop],
        {**headers, "Content-Range": f"bytes {start}-{stop - 1}/{len(content)}"},
    )


def etag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


class WebServer(Server):
    """Serves `files`, path -> content; `headers` adds to the answers of a path, `odd` answers in
    their place.
    """

    def __init__(self, tls: Authority | None = None, host: str = "127.0.0.1") -> None:
        self.files: dict[str, bytes] = {}
        self.headers: dict[str, dict[str, str]] = {}
        self.odd: dict[str, Callable[[Request], Reply | None]] = {}
        self.ranges = self.etags = True
        self.login = ""
        super().__init__(tls, host)

    def answer(self, request: Request) -> Reply:
        odd = self.odd.get(request.path)
        reply = odd(request) if odd else None
        if reply:
            return reply
        if self.login and request.headers.get("authorization") != self.login:
            return Reply(401, b"who are you?", {"WWW-Authenticate": "Basic"})
        content = self.files.get(request.path)
        if content is None:
            return Reply(404, b"not here")
        headers = {
            **({"ETag": etag(content)} if self.etags else {}),
            **self.headers.get(request.path, {}),
        }
        return ranged(request, content, headers) if self.ranges else Reply(200, content, headers)
