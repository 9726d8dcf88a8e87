"""Requests to a Kubernetes API server with Python's standard library: what the cluster's own parts
and its tests need of them.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECONDS = 60.0
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The server refused a request."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"{status}: {words}")
        self.status = status


class Api:
    """One API server, as the user of a certificate (NAME.crt and NAME.key beside ca.crt) or, without
    a name, of a token.
    """

    def __init__(self, server: str, pki: Path, user: str = "", token: str = "") -> None:
        self.server, self.token = server, token
        self.tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        if user:
            self.tls.load_cert_chain(pki / f"{user}.crt", pki / f"{user}.key")

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def create(self, path: str, body: dict[str, Any]) -> Any:
        return self.ask("POST", path, body)

    def patch(self, path: str, body: dict[str, Any]) -> Any:
        return self.ask("PATCH", path, body, MERGE)

    def delete(self, path: str, body: dict[str, Any] | None = None) -> Any:
        return self.ask("DELETE", path, body or {})

    def ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        kind: str = "application/json",
    ) -> Any:
        with self.open(method, path, body, kind) as answer:
            return json.load(answer)

    def read(self, path: str) -> bytes:
        with self.open("GET", path) as answer:
            return answer.read()

    def open(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        kind: str = "application/json",
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": kind, "Authorization": f"Bearer {self.token}"}
        if not self.token:
            del headers["Authorization"]
        request = urllib.request.Request(
            self.server + path, method=method, data=data, headers=headers
        )
        try:
            return urllib.request.urlopen(request, context=self.tls, timeout=SECONDS)
        except urllib.error.HTTPError as refused:
            with refused:
                raise ApiError(refused.code, refused.read().decode(errors="replace")) from None

    def follow(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """What there is, as ADDED after one RESTART, and then every change, until the watch ends."""
        listed = self.get(path)
        yield "RESTART", {}
        for item in listed["items"]:
            yield "ADDED", item
        version = listed["metadata"]["resourceVersion"]
        seconds = int(SECONDS / 2)  # a silent watch ends before a read of it times out
        watch = f"{path}?watch=1&resourceVersion={version}&timeoutSeconds={seconds}"
        with self.open("GET", watch) as lines:
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]
