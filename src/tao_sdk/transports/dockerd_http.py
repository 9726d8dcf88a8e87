"""Connections to a Docker daemon: over a unix socket, TCP or TLS.

Not here: requests over them (http_session.py), what is asked (dockerd.py), and the way through ssh
(dockerd_ssh.py).
"""

from __future__ import annotations

import json
import socket
import ssl
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import urlsplit

from tao_sdk.transports.http_session import Connect

NO_PASSWORD = "The private key is encrypted, and nobody can be asked for its password"
UNIX, SECURE = "http+unix://", "https://"


class UnixConnection(HTTPConnection):
    """A connection to the socket of a daemon on this machine."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.settimeout(self.timeout)
            line.connect(self.path)
        except BaseException:
            line.close()
            raise
        self.sock = line


def connect_to(url: str, certificates: str, verify: bool) -> Connect:
    """Return a function that opens connections to `url`: http+unix://, http:// or https://.

    `certificates` is a folder with ca.pem, cert.pem and key.pem, or "". Raises OSError for
    certificates that cannot be used.
    """
    if url.startswith(UNIX):
        path = "/" + url.removeprefix(UNIX).lstrip("/")
        return lambda: UnixConnection(path)
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    if not url.startswith(SECURE):
        return lambda: HTTPConnection(host, port)
    context = tls_context(certificates, verify)
    return lambda: HTTPSConnection(host, port, context=context)


def tls_context(certificates: str, verify: bool) -> ssl.SSLContext:
    """The TLS context. Without `verify` any daemon is trusted; without `certificates`, a daemon
    that this machine trusts.
    """
    authority = f"{certificates}/ca.pem" if certificates and verify else None
    context = ssl.create_default_context(cafile=authority)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificates:
        context.load_cert_chain(
            f"{certificates}/cert.pem", f"{certificates}/key.pem", password=refuse_to_ask
        )
    return context


def refuse_to_ask() -> str:
    raise OSError(NO_PASSWORD)


def words_of(data: bytes) -> str:
    """The message in the body of a refusal; the body itself where it is no JSON."""
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return data.decode("utf-8", "replace").strip()
