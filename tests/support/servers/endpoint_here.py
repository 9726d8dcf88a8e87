"""A small HTTP endpoint of a test's own: an address that answers by a function, does something when
called, or gives keys.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from support.servers import s3_here

Reply = Callable[
    [str, str, Mapping[str, str], str], tuple[int, str]
]  # (method, path, headers, body) -> status, text


class Endpoint:
    """Runs inside `with`; `asked` holds every request as it came."""

    def __init__(self, reply: Reply) -> None:
        self.asked: list[tuple[str, str, dict[str, str], str]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
                endpoint.asked.append((self.command, self.path, dict(self.headers.items()), body))
                status, text = reply(self.command, self.path, self.headers, body)
                self.send_response(status)
                self.send_header("content-length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            do_PUT = do_POST = do_GET  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.server.shutdown()
        self.server.server_close()


def called(act: Callable[[], object]) -> Endpoint:
    """Whoever calls it has `act` done before there is an answer."""

    def reply(*_: object) -> tuple[int, str]:
        act()
        return 200, ""

    return Endpoint(reply)


def session(server: s3_here.Server, seconds: float = 3600.0, **limits: str) -> dict[str, str]:
    """Keys of a session, by the token service of a real server; they say that they end in so many
    seconds.

    `limits` go into the request: a Policy that takes rights away.
    """
    import boto3

    keys = {
        "aws_access_key_id": s3_here.ACCESS,
        "aws_secret_access_key": s3_here.SECRET,
        "region_name": "us-east-1",
    }
    sts: Any = boto3.client("sts", endpoint_url=server.url, **keys)  # pyright: ignore
    role = {"RoleArn": "arn:aws:iam::123456789012:role/r", "RoleSessionName": "tests"}
    made = sts.assume_role(**role, **limits, DurationSeconds=900)["Credentials"]
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    names = {"AccessKeyId": made["AccessKeyId"], "SecretAccessKey": made["SecretAccessKey"]}
    return {**names, "Token": made["SessionToken"], "Expiration": ends}


class Keys(Endpoint):
    """A container's credentials endpoint: other keys each time, `last` of them at most. `environ`
    leads a job there.
    """

    def __init__(self, server: s3_here.Server, last: int = 1000) -> None:
        self.given: list[dict[str, str]] = []

        def reply(*_: object) -> tuple[int, str]:
            if len(self.given) < last:
                self.given.append(session(server))
            return 200, json.dumps(self.given[-1])

        super().__init__(reply)
        self.environ = {
            "AWS_ACCESS_KEY_ID": "",
            "AWS_SECRET_ACCESS_KEY": "",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": self.url,
        }
