"""A proxy with TLS before a cluster's API server, which does to a client what busy servers and bad
lines do: it freezes, refuses, breaks watches off, keeps what they tell to itself, and says that a
watch comes too late.

A client comes with a token, or with a certificate of the cluster's authority: the API server takes
the proxy's word for who that is.
"""

from __future__ import annotations

import http.client
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.kubernetes.kube_files import API_PORT
from support.kubernetes.kube_here import Cluster

HERE = "127.0.0.1"
SECONDS = 600.0  # a watch may be silent for long
OF_THE_LINE = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


@dataclass
class Refusal:
    """The answer to the next requests whose line (`GET /api/v1/pods?...`) has these words."""

    status: int
    words: str
    times: int
    said: str = "the tests' proxy refuses this"
    headers: dict[str, str] = field(default_factory=dict[str, str])


class FaultProxy:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster, pki = cluster, cluster.place.pki
        self.requests: list[str] = []  # each one's line, in the order that they came
        self.refusals: list[Refusal] = []
        self.moves = threading.Event()
        self.moves.set()
        self.watches: set[Answering] = set()
        self.expired_watches = 0  # that many are told so
        self.swallows, self.swallowed = False, 0  # what watches tell; how many pieces of it
        self.to_server = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self.for_others = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self.for_others.load_cert_chain(pki / "front-proxy.crt", pki / "front-proxy.key")
        self.here = Listening(self, pki)

    @property
    def server(self) -> str:
        """Its address, in place of the API server's."""
        return f"https://{HERE}:{self.here.server_port}"

    def write_kubeconfig(self, path: Path, token: str = "", namespace: str = "default") -> Path:
        """Of the user of a token, or of one who may do everything."""
        authority = self.cluster.authority
        user = {"token": token} if token else authority.certificate_user("admin")
        return authority.write_kubeconfig(path, self.server, user, namespace)

    # Faults

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Connections are taken and held, and nothing is said, in running watches neither."""
        self.moves.clear()
        try:
            yield
        finally:
            self.moves.set()

    @contextmanager
    def swallowing(self) -> Iterator[None]:
        """Watches stay open and tell nothing; all else is answered. They are broken off at the end."""
        self.swallows = True
        try:
            yield
        finally:
            self.swallows = False
            self.drop_watches()

    def refuse(
        self, status: int, words: str = "", times: int = 1, said: str = Refusal.said, **headers: str
    ) -> None:
        """Answer the next requests with this status, such as 429 with Retry_After="1"; a 200 has
        the words alone.
        """
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.refusals.append(Refusal(status, words, times, said, named))

    def drop_watches(self) -> int:
        """Break every running watch off in the middle; how many there were."""
        dropped = list(self.watches)
        for watch in dropped:
            self.watches.discard(watch)
            watch.hang_up()
        return len(dropped)

    def expire_watches(self, times: int = 1) -> None:
        """Tell the next watches that what they continue from is too old (410)."""
        self.expired_watches += times

    def refusal_of(self, line: str) -> Refusal | None:
        for refusal in self.refusals:
            if refusal.times and refusal.words in line:
                refusal.times -= 1
                return refusal
        return None


class Listening(http.server.ThreadingHTTPServer):
    """The proxy's port. A handshake waits in the thread of its connection."""

    def __init__(self, proxy: FaultProxy, pki: Path) -> None:
        self.proxy = proxy
        super().__init__((HERE, 0), Answering)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(pki / "kube-apiserver.crt", pki / "kube-apiserver.key")
        tls.load_verify_locations(pki / "ca.crt")
        tls.verify_mode = ssl.CERT_OPTIONAL
        self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has left is no news."""


class Answering(http.server.BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server: Listening

    def answer(self) -> None:
        proxy = self.server.proxy
        line = f"{self.command} {self.path}"
        proxy.requests.append(line)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        proxy.moves.wait()
        if refusal := proxy.refusal_of(line):
            return self.refuse(refusal)
        if not is_watch(self.path):
            return self.pass_on(body)
        if proxy.expired_watches:
            proxy.expired_watches -= 1
            return self.say_expired()
        proxy.watches.add(self)
        try:
            return self.pass_on(body)
        finally:
            proxy.watches.discard(self)

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def do_PUT(self) -> None:
        self.answer()

    def do_PATCH(self) -> None:
        self.answer()

    def do_DELETE(self) -> None:
        self.answer()

    def refuse(self, refusal: Refusal) -> None:
        said = refusal.said
        if refusal.status != 200:
            said = json.dumps(status_object(refusal.status, "TestRefusal", said))
        self.send_whole(refusal.status, said.encode(), refusal.headers)

    def say_expired(self) -> None:
        said = status_object(410, "Expired", "too old resource version: 1 (2)")
        event = {"type": "ERROR", "object": said}
        self.send_whole(200, json.dumps(event).encode() + b"\n", {})

    def send_whole(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def pass_on(self, body: bytes) -> None:
        line = self.connect_to_server()
        try:
            headers = {**passing(self.headers), **self.client_identity()}
            line.request(self.command, self.path, body, headers)
            self.pass_back(line.getresponse())
        finally:
            line.close()

    def connect_to_server(self) -> http.client.HTTPSConnection:
        proxy = self.server.proxy
        tls = proxy.for_others if self.client_identity() else proxy.to_server
        address = proxy.cluster.place.address
        return http.client.HTTPSConnection(address, API_PORT, timeout=SECONDS, context=tls)

    def client_identity(self) -> dict[str, str]:
        """The headers that say who came with a certificate; none for others."""
        connection = self.connection
        assert isinstance(connection, ssl.SSLSocket)
        certificate = connection.getpeercert() or {}
        subject = dict(part for [part] in certificate.get("subject", ()))
        if not subject:
            return {}
        names = {"commonName": "X-Remote-User", "organizationName": "X-Remote-Group"}
        return {names[key]: value for key, value in subject.items() if key in names}

    def pass_back(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        for name, value in passing(answer.headers).items():
            self.send_header(name, value)
        length = answer.headers.get("Content-Length")
        if length is not None or answer.status == 204:
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            self.wfile.write(answer.read())
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := answer.read1(65536):
            self.server.proxy.moves.wait()
            if self.server.proxy.swallows and is_watch(self.path):
                self.server.proxy.swallowed += 1
                continue
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def hang_up(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(2)

    def log_message(self, format: str, *arguments: object) -> None:
        del format, arguments


def passing(headers: Any) -> dict[str, str]:
    """Those that are about the message, not about the line or about who asks."""
    return {
        name: value
        for name, value in headers.items()
        if name.lower() not in OF_THE_LINE and not name.lower().startswith("x-remote-")
    }


def is_watch(path: str) -> bool:
    return "watch=1" in path or "watch=true" in path


def status_object(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


@contextmanager
def before(cluster: Cluster) -> Iterator[FaultProxy]:
    """A proxy before the cluster's API server."""
    proxy = FaultProxy(cluster)
    threading.Thread(target=proxy.here.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.moves.set()
        proxy.drop_watches()
        proxy.here.shutdown()
        proxy.here.server_close()
