"""A stand-in for a language model: an HTTP server that answers as its script says."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class StandIn(BaseHTTPRequestHandler):
    """Answers as its server's `script` says: (status, headers, body), one after the other."""

    def do_POST(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.seen.append((self.path, dict(self.headers), json.loads(body)))
        status, headers, answer = server.script.pop(0)
        if status == "silent":
            time.sleep(answer)
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if isinstance(answer, list):
            for part in answer:
                self.wfile.write(part)
                self.wfile.flush()
                time.sleep(0.1)
        else:
            self.wfile.write(answer)

    def handle_one_request(self) -> None:
        """A client that has given up is no failure of the server."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            super().handle_one_request()

    def log_message(self, *_: Any) -> None:
        return


class LanguageModel(ThreadingHTTPServer):
    """`script` has the answers to come, `seen` the path, headers and body of each question."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), StandIn)
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self.script: list[tuple[Any, dict[str, str], Any]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextlib.contextmanager
def serving() -> Iterator[LanguageModel]:
    with LanguageModel() as found:
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        yield found
        found.shutdown()


def chat(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"content": text}}]}).encode()
