"""Kube: requests to the API server of one Kubernetes cluster, over connections that are kept.

Here: JSON in and out, streams, time limits, and the server's refusals as errors. Not here: what is
asked and what the answer means (the backend).
"""

from __future__ import annotations

import json
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException
from typing import Any, cast
from urllib.parse import urlsplit

from tao_sdk.model.errors import TaoError, Unreachable
from tao_sdk.net.proxy import proxy_for
from tao_sdk.net.wire import split_url
from tao_sdk.transports.http_session import Answer, Server, Session
from tao_sdk.transports.kube_login import Credential, KubeLogin, refused_login
from tao_sdk.transports.kubeconfig import Cluster
from tao_sdk.transports.silence import Silence, seconds_left
from tao_sdk.transports.web_connection import ConnectFailed, WebConnection

CONNECT_SECONDS, READ_SECONDS = 5.0, 10.0
LIST_SECONDS = 12.0  # a list of thousands takes the server a while
# seconds after which a server that has not begun to answer is taken to be silent, unless it answers
# a ping in some seconds more
PATIENCE, PING_SECONDS = 6.0, 2.0
LARGEST = 16 * 1024 * 1024  # bytes of an answer about one thing
LARGEST_LIST = 512 * 1024 * 1024
BUSY = 429
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds that a busy server may ask for
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
WORDS = 4000  # characters of a refusal that are kept

Json = dict[str, Any]


class KubeError(TaoError):
    """The API server answered and refused. `status` is the HTTP status, `reason` the server's own
    word for the kind, `what` its sentence.
    """

    code = "kubernetes.refused"

    def __init__(self, status: int, reason: str, what: str) -> None:
        super().__init__(what)
        self.status = status
        self.reason = reason
        self.backend_words = what


@contextmanager
def ignored(*statuses: int) -> Generator[None]:
    """Pass over a KubeError with one of these HTTP statuses."""
    try:
        yield
    except KubeError as error:
        if error.status not in statuses:
            raise


@dataclass(frozen=True)
class Times:
    """The seconds to wait for an answer, and the seconds during which a busy server is asked
    again.
    """

    read: float = READ_SECONDS
    give_up: float = 30.0


class Kube:
    """One cluster. Safe to use from several threads. The constructor sends no request."""

    def __init__(self, cluster: Cluster, environ: Mapping[str, str]) -> None:
        self.cluster, self.environ = cluster, environ
        self.login = KubeLogin(cluster, environ)
        self.requests = 0  # requests sent
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._used: Credential | None = None
        name = f"the API server {cluster.server}"
        self._server = Server(name, "/livez", PATIENCE, PING_SECONDS, Silence())

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        times: Times = Times(),
        largest: int = LARGEST,
    ) -> Json:
        """The answer's object. Raises KubeError, Unreachable, CredentialError."""
        data = json.dumps(body, allow_nan=False).encode() if body is not None else None
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        deadline = time.monotonic() + seconds_left(times.give_up)
        answer = self._answered(method, path, data, params, headers, times.read, deadline)
        try:
            return self._object(answer, largest, deadline)
        finally:
            answer.close()

    def list(self, path: str, params: Mapping[str, Any] | None = None) -> Json:
        """All things of a kind, in one answer. Raises KubeError, Unreachable, CredentialError."""
        return self.ask("GET", path, params=params, times=Times(LIST_SECONDS), largest=LARGEST_LIST)

    def server_time(self) -> datetime | None:
        """The server's clock, to the second; None if it does not state it. Raises as `ask`."""
        answer = self.stream("/version")
        answer.close()
        try:
            return parsedate_to_datetime(str(answer.headers.get("Date")))
        except ValueError:
            return None

    def stream(
        self, path: str, params: Mapping[str, Any] | None = None, read: float = READ_SECONDS
    ) -> Answer:
        """An answer whose body is read as it comes. The caller closes it. Raises as `ask`."""
        deadline = time.monotonic() + seconds_left(read)
        return self._answered("GET", path, None, params, {"Accept": "*/*"}, read, deadline)

    def close(self) -> None:
        """Close the connections; the next request opens others."""
        with self._lock:
            session, self._session, self._used = self._session, None, None
        if session is not None:
            session.close()

    def _answered(
        self,
        method: str,
        path: str,
        data: bytes | None,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        read: float,
        deadline: float,
    ) -> Answer:
        """The answer that is no refusal. A busy server is asked again; a server that does not take
        an old login is asked once more.
        """
        renewed = False
        while True:
            patience = seconds_left(read)
            if patience <= 0:
                raise unreachable(self.cluster.server, TimeoutError(), nothing_sent=True)
            answer = self._sent(method, path, data, params, headers, patience)
            if answer.status < 300:
                return answer
            if is_foreign(answer, path):
                answer.close()
                raise no_kubernetes(self.cluster.server, answer)
            try:
                pause = pause_of(answer)
                error = self._refusal(answer, deadline)
            finally:
                answer.close()
            if answer.status == 401:
                if renewed or not self.login.can_renew:
                    raise refused_login(self.cluster, error.what)
                renewed = True
                self.login.forget()
                continue
            if answer.status == BUSY and time.monotonic() + pause <= deadline:
                time.sleep(pause)
                continue
            if is_broken(answer.status):
                raise unanswered(self.cluster.server, error)
            raise error

    def _sent(
        self,
        method: str,
        path: str,
        data: bytes | None,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        read: float,
    ) -> Answer:
        credential = self.login.credential()
        session = self._session_for(credential)
        given = dict(headers)
        if credential.header:
            given["Authorization"] = credential.header
        where = urlsplit(self.cluster.server).path.rstrip("/") + path
        with self._lock:
            self.requests += 1
        try:
            return session.request(
                method, where, (CONNECT_SECONDS, read), params=params, headers=given, data=data
            )
        except ConnectFailed as error:
            raise unreachable(self.cluster.server, error, nothing_sent=True) from error
        except (OSError, HTTPException) as error:
            raise unreachable(self.cluster.server, error) from error

    def _session_for(self, credential: Credential) -> Session:
        """The session whose connections present this client certificate."""
        with self._lock:
            used = self._used
            same = used is not None and used.certificate == credential.certificate
            if self._session is None or not same:
                if self._session is not None:
                    self._session.close()
                connect = connecting(self.cluster, credential, self.environ)
                self._session = Session(self.cluster.server, connect, self._server)
                self._used = credential
            return self._session

    def _object(self, answer: Answer, largest: int, deadline: float) -> Json:
        try:
            data = answer.read_before(deadline, largest)
            value: Any = json.loads(data)
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            raise unreachable(self.cluster.server, error) from error
        if not isinstance(value, dict):
            what = f"{self.cluster.server} gave no answer that can be understood."
            raise Unreachable(what, "", "Try again.")
        return cast("Json", value)

    def _refusal(self, answer: Answer, deadline: float) -> KubeError:
        data = b""  # the status says enough where the words do not come
        with suppress(OSError, HTTPException, ValueError):
            data = answer.read_before(deadline, LARGEST)
        try:
            said: Any = json.loads(data)
            words, reason = str(said.get("message") or ""), str(said.get("reason") or "")
        except (ValueError, AttributeError, RecursionError):
            words, reason = data.decode("utf-8", "replace").strip(), ""
        what = words[:WORDS] or f"HTTP status {answer.status}"
        return KubeError(answer.status, reason, what)


def is_foreign(answer: Answer, path: str) -> bool:
    """True for a refusal that no API server gives, but any web server: a page, or a missing
    /version.
    """
    if answer.status in (401, BUSY) or answer.status >= 500:
        return False
    is_page = str(answer.headers.get("Content-Type")).startswith("text/html")
    return is_page or (path == "/version" and answer.status == 404)


def no_kubernetes(server: str, answer: Answer) -> Unreachable:
    """The error for a web server in the place of the API server. Its answers about a job count for
    nothing.
    """
    program = str(answer.headers.get("Server") or "").partition(" ")[0][:40]
    said = f"HTTP status {answer.status}" + (f" of {program}" if program else "")
    return Unreachable(
        f"{server} is no Kubernetes API server: it answered {said}.",
        "The kubeconfig has it as the server of the cluster.",
        "Correct the server there. The address in use:",
        "kubectl config view --minify",
    )


def is_broken(status: int) -> bool:
    """True for a status that says nothing about the request: another try may succeed."""
    return status >= 500 or status == BUSY


def pause_of(answer: Answer) -> float:
    """The seconds until a busy server is asked again: the server's own number, within bounds."""
    text = str(answer.headers.get("Retry-After") or "1")
    if not text.isdigit():
        return 1.0
    return min(max(float(text), SHORTEST_PAUSE), LONGEST_PAUSE)


def unanswered(server: str, error: KubeError) -> Unreachable:
    """The error for a server that answered, but not the question."""
    return Unreachable(
        f"The API server {server} could not answer (HTTP {error.status}).", error.what, "Try again."
    )


def unreachable(server: str, error: Exception, nothing_sent: bool = False) -> Unreachable:
    """The error for a server that gave no answer. `nothing_sent`: it got no request."""
    words = str(error) or type(error).__name__
    fix = "Connect to its network (VPN, proxy), or choose another context. To see if it answers:"
    if isinstance(error, ssl.SSLCertVerificationError):
        words = (
            f"its certificate is not of the CA that the kubeconfig names ({error.verify_message})"
        )
    elif isinstance(error, TimeoutError):
        words = "it did not answer in time"
    what = f"The API server {server} cannot be reached."
    told = Unreachable(what, words, fix, "kubectl get --raw /readyz")
    told.nothing_sent = nothing_sent
    return told


# Connections


def connecting(
    cluster: Cluster, credential: Credential, environ: Mapping[str, str]
) -> Callable[[], HTTPConnection]:
    """Return a function that opens connections to the cluster."""
    origin, _ = split_url(cluster.server)
    scheme, host, port = origin
    proxy = proxy_of(cluster, environ)
    context = tls_context(cluster, credential) if scheme == "https" else None
    return lambda: WebConnection(host, port, context, cluster.server_name, proxy)


def proxy_of(cluster: Cluster, environ: Mapping[str, str]) -> tuple[str, int, str] | None:
    """(host, port, authorization) of the proxy on the way; None without one."""
    origin, _ = split_url(cluster.server)
    if not cluster.proxy:
        return proxy_for(origin, environ)
    if not cluster.proxy.startswith("http://"):
        what = f"The proxy {cluster.proxy.rpartition('@')[2]} of the kubeconfig cannot be used."
        raise Unreachable(what, "Only proxies with http:// can.", "Use one, or none.")
    return proxy_for(origin, {"https_proxy": cluster.proxy, "http_proxy": cluster.proxy})


def tls_context(cluster: Cluster, credential: Credential) -> ssl.SSLContext:
    """The TLS context: the trusted authority, and the client certificate. Raises
    CredentialError.
    """
    authority = cluster.authority.decode("ascii", "replace") if cluster.authority else None
    try:
        context = ssl.create_default_context(cadata=authority)
        if not cluster.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if credential.certificate:
            load_certificate(context, credential)
    except (ssl.SSLError, ValueError) as error:
        raise refused_login(cluster, f"its certificates cannot be used ({error})") from error
    return context


def load_certificate(context: ssl.SSLContext, credential: Credential) -> None:
    """Load the certificate from a file of this process alone, in memory: this program writes no key
    to disk.
    """
    data = credential.certificate + b"\n" + credential.key
    with memory_file() as name:
        with open(name, "wb") as file:  # noqa: PTH123
            file.write(data)
        context.load_cert_chain(name, password=refuse_to_ask)


@contextmanager
def memory_file() -> Generator[str]:
    """The path of a file that no other process can open. It is gone afterwards."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tao-login")
        try:
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        yield file.name


def refuse_to_ask() -> str:
    raise ssl.SSLError("the private key is encrypted, and nobody can be asked for its password")
