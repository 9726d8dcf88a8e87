"""What a daemon's refusal to give a log means to who asks for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tao_sdk.backends.containers import logs
from tao_sdk.backends.contract import LogRequest
from tao_sdk.model.errors import NoLog, PathNotFound, TaoError, Unreachable
from tao_sdk.transports.dockerd import Address, Daemon

WORDS = "can not get logs from container which is dead or marked for removal"


@pytest.fixture
def refusing() -> Iterator[Callable[[int], Daemon]]:
    """A daemon that speaks its API and refuses every log with the status it is given."""
    statuses: list[int] = []

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.path.endswith("/version")
            body = json.dumps({"ApiVersion": "1.47"} if asked else {"message": WORDS}).encode()
            self.send_response(200 if asked else statuses[0])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    daemon = Daemon(Address(f"tcp://127.0.0.1:{server.server_port}"))

    def with_status(status: int) -> Daemon:
        statuses.append(status)
        return daemon

    yield with_status
    daemon.close()
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, PathNotFound), (409, NoLog), (501, NoLog), (400, Unreachable), (500, Unreachable)],
)
@pytest.mark.parametrize("tail", [None, 5])
def test_a_log_that_is_refused_is_lost_or_to_be_asked_for_again_and_the_daemons_words_are_told(
    refusing: Callable[[int], Daemon], status: int, kind: type[TaoError], tail: int | None
) -> None:
    with pytest.raises(kind, match="marked for removal") as told:
        list(logs.read(refusing(status), "c", LogRequest(tail=tail), lambda: True))
    assert type(told.value) is kind
