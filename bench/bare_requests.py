"""Bare requests: a plain HTTP client of an API server, and the requests of one of our submits made
again with it.

What they take is what the server takes; what a submit takes beside that is ours.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tao_sdk.transports.kube import Kube

JSON = "application/json"
IDLE_SECONDS = 30.0  # after which the server may close a connection


@dataclass(frozen=True)
class Request:
    method: str
    path: str  # with its query
    body: Any = None
    content_type: str = JSON

    @property
    def creates_job(self) -> bool:
        return self.method == "POST" and self.path.endswith("/jobs")


class BareApi:
    """One connection to an API server, which is kept, as the user of a certificate."""

    def __init__(self, server: str, certificates: Path, user: str) -> None:
        tls = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
        tls.load_cert_chain(certificates / f"{user}.crt", certificates / f"{user}.key")
        self.connection = HTTPSConnection(urlsplit(server).netloc, context=tls, timeout=60)
        self.used_at = 0.0

    def ask(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> Any:
        if time.monotonic() - self.used_at > IDLE_SECONDS:
            self.connection.close()  # the next request opens another
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": JSON}
        self.connection.request(method, path, data, headers)
        answer = self.connection.getresponse()
        text = answer.read()
        self.used_at = time.monotonic()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
        return json.loads(text)

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def repeat(self, requests: Sequence[Request], changes: Mapping[str, str], uid: str) -> None:
        """Make them once more, with other names. The Job's uid is the one that it gets."""
        new_uid = ""
        for request in requests:
            text = json.dumps([request.path, request.body])
            for old, new in {**changes, uid: new_uid}.items():
                text = text.replace(old, new)
            path, body = json.loads(text)
            answer = self.ask(request.method, path, body, request.content_type)
            if request.creates_job:
                new_uid = answer["metadata"]["uid"]


@contextmanager
def recorded(kube: Kube) -> Generator[list[Request]]:
    """The requests that are made meanwhile."""
    ask = kube.ask
    requests: list[Request] = []

    def ask_and_note(
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        **limits: Any,
    ) -> dict[str, Any]:
        query = f"?{urlencode(params)}" if params else ""
        requests.append(Request(method, path + query, body, content_type))
        return ask(method, path, body, params, content_type, **limits)

    kube.ask = ask_and_note
    try:
        yield requests
    finally:
        kube.ask = ask
