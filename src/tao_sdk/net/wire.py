"""One HTTP/1.1 connection: its socket, TLS, proxy, and the bytes of requests and answers.

Not here: redirects, retries and reuse (web.py). Python's own http.client takes 30 ms to import and
a third of a millisecond to read the head of an answer. A job that fetches thousands of small files
would notice both.
"""

from __future__ import annotations

import os
import socket
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping
    from typing import Protocol

    Origin = tuple[str, str, int]  # scheme, host, port
    Proxy = tuple[str, int, str]  # host, port, the value of proxy-authorization

    class Body(Protocol):
        """Bytes to send, which may be larger than memory."""

        size: int

        def send(self, sock: socket.socket, plain: bool) -> None:
            """Send all bytes, at every call. `plain`: the socket has no TLS."""


CONNECT = 10.0  # seconds
SILENCE = 60.0  # seconds without a byte, either way
BUFFER = 1 << 18
MOMENT = 0.25  # seconds to fill a buffer; then the bytes so far are passed on
LONGEST_HEAD = 1 << 16
MOST_LINES = 1000  # trailers, or interim answers before the final one
LONGEST_NUMBER = 19  # digits
HEX = b"0123456789abcdefABCDEF"
WANTS_LOGIN = 407
PORTS = {"http": 80, "https": 443}
AUTHORITIES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
BUNDLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


class Garbled(OSError):
    """The answer is not valid HTTP."""


class CutShort(OSError):
    """The answer ended before its length was reached."""


class ProxyRefused(OSError):
    """The proxy refused the connection; `status` is its answer."""

    def __init__(self, status: int) -> None:
        super().__init__(f"it answers with status {status}")
        self.status = status


class ProxyAway(OSError):
    """The proxy itself was not reached, or does not answer like one. The text is the cause's."""


def parse_number(text: str) -> int:
    """The number in a header's text; -1 if it is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < LONGEST_NUMBER else -1


def split_url(url: str) -> tuple[Origin, str]:
    """(origin, path with query) of an address. A login and a fragment in it are dropped."""
    scheme, _, rest = url.partition("#")[0].partition("://")
    at = min([place for place in (rest.find("/"), rest.find("?")) if place >= 0] or [len(rest)])
    authority, target = rest[:at].rpartition("@")[2], rest[at:]
    host, port = authority, ""
    if ":" in authority.rpartition("]")[2]:
        host, _, port = authority.rpartition(":")
    number = parse_number(port)
    if number < 0:
        number = PORTS.get(scheme.lower(), 80)
    if not target.startswith("/"):
        target = "/" + target
    return (scheme.lower(), host.strip("[]").lower(), number), target


def host_header(origin: Origin) -> str:
    """The Host header for an origin."""
    scheme, host, port = origin
    shown = f"[{host}]" if ":" in host else host
    return shown if PORTS.get(scheme) == port else f"{shown}:{port}"


class TlsTrust:
    """The trusted certificates: the bundle in the environment, else the system's, wherever this
    image has it.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self.bundle = next((env[name] for name in BUNDLES if env.get(name)), "")
        self.made: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        self.made = self.made or self.make_context()
        return self.made

    def make_context(self) -> ssl.SSLContext:
        import ssl

        from tao_sdk.net.failure import Failure

        try:
            context = ssl.create_default_context(cafile=self.bundle or None)
        except OSError as error:
            raise Failure(
                "web.tls",
                f"The bundle of certificates cannot be read: {self.bundle}",
                f"{error.strerror or error}.",
                "Mount the file into the job, or name another in AWS_CA_BUNDLE or SSL_CERT_FILE.",
            ) from error
        if not self.bundle and not context.cert_store_stats()["x509_ca"]:
            for path in filter(os.path.exists, AUTHORITIES):
                context.load_verify_locations(path)
        return context


class Connection:
    """One socket, for consecutive requests."""

    def __init__(self, origin: Origin, proxy: Proxy | None, trust: TlsTrust) -> None:
        self.origin, self.proxy = origin, proxy
        self.used = False  # True after it was idle: the server may have closed it
        self.heard = False  # True once a byte of the last request's answer has arrived
        self.reusable = False
        self.held: bytes = b""  # bytes read beyond the head of the answer
        self.headers: dict[str, str] = {}
        self.buffer = memoryview(bytearray(0))
        self.sock = open_socket(proxy, origin)
        try:
            self.peer: str = self.sock.getpeername()[0]
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock.settimeout(SILENCE)
            if origin[0] == "https":
                if proxy:
                    self.open_tunnel(proxy)
                self.sock = trust.context().wrap_socket(self.sock, server_hostname=origin[1])
        except BaseException:
            self.sock.close()
            raise

    def open_tunnel(self, proxy: Proxy) -> None:
        try:
            self.ask_tunnel(proxy)
        except ProxyRefused:
            raise
        except OSError as error:
            raise ProxyAway(error.strerror or str(error)) from error

    def ask_tunnel(self, proxy: Proxy) -> None:
        _, host, port = self.origin
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        headers = {"host": where}
        if proxy[2]:
            headers["proxy-authorization"] = proxy[2]
        self.sock.sendall(head_of("CONNECT", where, headers))
        status, _ = self.read_head()
        if status != 200:
            raise ProxyRefused(status)
        self.held = b""

    def request(
        self, method: str, target: str, headers: dict[str, str], body: bytes | Body
    ) -> tuple[int, dict[str, str]]:
        """Send a request; return the status and headers of its answer. Raises OSError, Garbled."""
        self.heard = self.reusable = False
        self.method = method
        size = len(body) if isinstance(body, bytes) else body.size
        lines = {"host": host_header(self.origin), "accept-encoding": "identity", **headers}
        if size or method in ("PUT", "POST"):
            lines["content-length"] = str(size)
        if self.proxy and self.origin[0] == "http":
            target = "http://" + host_header(self.origin) + target
            if self.proxy[2]:
                lines["proxy-authorization"] = self.proxy[2]
        head = head_of(method, target, lines)
        broke: OSError | None = None
        try:
            self.send_request(head, body)
        except OSError as error:
            # the server may have answered before it had everything, and says why
            broke = error
        try:
            self.status, self.headers = self.read_head()
        except OSError:
            if broke:
                raise broke from None
            raise
        if self.status == WANTS_LOGIN and self.proxy and self.origin[0] == "http":
            raise ProxyRefused(self.status)
        self.whole_sent = broke is None
        return self.status, self.headers

    def send_request(self, head: bytes, body: bytes | Body) -> None:
        if isinstance(body, bytes):
            self.sock.sendall(head + body)
            return
        self.sock.sendall(head)
        body.send(self.sock, self.origin[0] == "http")

    def read_head(self) -> tuple[int, dict[str, str]]:
        """The status and headers of the next final answer. Interim answers (100) are skipped."""
        for _ in range(MOST_LINES):
            text = self.read_until(
                b"\r\n\r\n", "the server closed the connection instead of answering"
            )
            status, headers = parse_head(text)
            if status >= 200 or status == 101:
                return status, headers
        raise Garbled("one answer after the other that is none")

    def read_body(self) -> Iterator[memoryview]:
        """The bytes of the answer's body. After the last, the connection can be reused. Raises
        OSError.
        """
        if self.method == "HEAD" or self.status in (204, 304):
            self.finish_answer()
            return iter(())
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return self.read_chunked()
        length = parse_number(self.headers.get("content-length", ""))
        return self.read_counted(length) if length >= 0 else self.read_until_closed()

    def read_counted(self, length: int) -> Iterator[memoryview]:
        yield from self.read_bytes(length)
        self.finish_answer()

    def read_bytes(self, length: int) -> Iterator[memoryview]:
        """The next `length` bytes. Raises CutShort."""
        if not self.buffer:
            self.buffer = memoryview(bytearray(BUFFER))
        if self.held and length:
            first, self.held = self.held[:length], self.held[length:]
            length -= len(first)
            yield memoryview(first)
        while length:
            count, broke = self.fill_buffer(min(length, BUFFER))
            length -= count
            if count:
                yield self.buffer[:count]
            if broke:
                raise broke
            if not count:
                raise CutShort(f"{length} bytes are missing at the end")

    def fill_buffer(self, wanted: int) -> tuple[int, OSError | None]:
        """(number of bytes read into the buffer, the error that ended the reading or None).

        TLS returns 16 KiB at a time, and to pass on each piece costs more than to read it.
        """
        count, late = 0, monotonic() + MOMENT
        try:
            while True:
                came = self.sock.recv_into(self.buffer[count:wanted])
                count += came
                if not came or count == wanted or monotonic() > late:
                    return count, None
        except OSError as error:
            return count, error

    def read_until_closed(self) -> Iterator[memoryview]:
        if self.held:
            first, self.held = self.held, b""
            yield memoryview(first)
        while True:
            data = self.sock.recv(BUFFER)
            if not data:
                return
            yield memoryview(data)

    def read_chunked(self) -> Iterator[memoryview]:
        while True:
            size = self.read_line().partition(b";")[0].strip()
            if not size or size.strip(HEX) or len(size) >= LONGEST_NUMBER:
                raise Garbled("a chunk without its size")
            length = int(size, 16)
            if not length:
                break
            yield from self.read_bytes(length)
            self.read_line()
        for _ in range(MOST_LINES):
            if not self.read_line():  # else a trailer
                self.finish_answer()
                return
        raise Garbled("trailers without an end")

    def read_line(self) -> bytes:
        return self.read_until(b"\n", "the last chunk is missing").rstrip(b"\r")

    def read_until(self, mark: bytes, cut_short: str) -> bytes:
        """The bytes before a mark. The bytes after it are kept for the next read."""
        while mark not in self.held:
            more = self.sock.recv(1 << 16)
            if not more:
                raise CutShort(cut_short)
            self.heard = True
            self.held += more
            if len(self.held) > LONGEST_HEAD and mark not in self.held[:LONGEST_HEAD]:
                raise Garbled("a head or a line of the answer has no end")
        before, _, self.held = self.held.partition(mark)
        return before

    def finish_answer(self) -> None:
        """Set `reusable` unless the request was not fully sent, bytes are left, or the server wants
        to close.
        """
        self.reusable = (
            self.whole_sent
            and not self.held
            and self.headers.get("connection", "").lower() != "close"
        )

    def close(self) -> None:
        self.sock.close()


def open_socket(proxy: Proxy | None, origin: Origin) -> socket.socket:
    """A socket to the origin, or to the proxy on the way there."""
    if not proxy:
        return socket.create_connection(origin[1:], CONNECT)
    try:
        return socket.create_connection(proxy[:2], CONNECT)
    except OSError as error:
        raise ProxyAway(error.strerror or str(error)) from error
    except UnicodeError as error:
        raise ProxyAway("invalid host name or port") from error


def head_of(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"{method} {target} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "",
    ]
    return "\r\n".join(lines).encode("utf-8")


def parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    """The status, and the headers by lower-case names. Values of a repeated header are joined."""
    lines: list[str] = head.decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    if not version.startswith("HTTP/1.") or parse_number(rest[:3]) < 0:
        raise Garbled("this is no HTTP/1.1 server")
    headers: dict[str, str] = {"connection": "close"} if version == "HTTP/1.0" else {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        if name in headers and name != "connection":
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return int(rest[:3]), headers
