"""Many: a daemon that has as many running containers as one likes, and counts what it is asked. It
knows a few questions.

Real ones would need more memory than a machine has that runs a bench; what a listing says of each
is as Docker 20.10 says it.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tao_sdk.model.plan import Attempt

INFO = {"ID": "MANY", "DockerRootDir": "/nowhere", "ServerVersion": "20.10.24"}
VERSION = {"ApiVersion": "1.41", "MinAPIVersion": "1.12", "Version": "20.10.24"}


def unique_id(attempt: Attempt) -> str:
    return attempt.job_id.encode().hex().ljust(64, "0")[:64]


def listed(attempt: Attempt) -> dict[str, Any]:
    """A running container of ours, as GET /containers/json has it."""
    labels = {
        "tao-toolkit": "true",
        "tao-sdk-job-id": attempt.job_id,
        "tao-sdk-attempt": str(attempt.number),
        "tao-sdk-store": attempt.store_id,
    }
    return {
        "Id": unique_id(attempt),
        "Names": [f"/tao-job-{attempt.job_id}"],
        "Image": "tao-test-python",
        "ImageID": f"sha256:{'0' * 64}",
        "Command": "/sbin/docker-init -- /bin/sh -c 'set -- -c \"$1\"'",
        "Created": 1793000000,
        "Ports": [],
        "Labels": labels,
        "State": "running",
        "Status": "Up 5 minutes",
        "HostConfig": {"NetworkMode": "tao_default"},
        "NetworkSettings": {"Networks": {}},
        "Mounts": [],
    }


class Many(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Serves in a thread of its own until it is closed; `asked` are the paths of all questions so
    far.
    """

    daemon_threads = True

    def __init__(self, socket: Path, attempts: Sequence[Attempt]) -> None:
        self.answers = {
            "/version": VERSION,
            "/info": INFO,
            "/containers/json": [listed(each) for each in attempts],
        }
        self.asked: list[str] = []
        super().__init__(str(socket), Question)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Question(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Many

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        path = "/" + path.split("/", 2)[2] if path.startswith("/v1.") else path
        self.server.asked.append(path)
        answer = json.dumps(self.server.answers.get(path, {"message": f"no {path} here"})).encode()
        self.send_response(200 if path in self.server.answers else 404)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def address_string(self) -> str:
        return "unix"
