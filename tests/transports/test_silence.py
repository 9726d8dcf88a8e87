"""Places that take a question and do not answer: how often they are waited for."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from support.servers.silent_server import silent_server
from support.waiting import until
from tao_sdk.model.errors import Unreachable
from tao_sdk.transports import dockerd, kube, silence
from tao_sdk.transports.dockerd import Address, Daemon
from tao_sdk.transports.kube import Kube
from tao_sdk.transports.kubeconfig import Cluster, Login
from tao_sdk.transports.silence import within

LONG = 600.0  # seconds: nobody waits for them but a test that has failed


@pytest.fixture(autouse=True)
def soon_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (dockerd, kube):
        monkeypatch.setattr(module, "PATIENCE", 0.3)
        monkeypatch.setattr(module, "PING_SECONDS", 0.3)
    monkeypatch.setattr(silence, "REMEMBERED_SECONDS", LONG)


def docker_question(address: str) -> Callable[[], Any]:
    daemon = Daemon(Address(f"tcp://{address}"))
    return lambda: daemon.get("/containers/json")


def kubernetes_question(address: str) -> Callable[[], Any]:
    cluster = Kube(Cluster(f"http://{address}", Login()), {})
    return lambda: cluster.ask("GET", "/api")


@pytest.mark.slow
@pytest.mark.parametrize("question", [docker_question, kubernetes_question])
def test_a_silent_place_is_waited_for_once(
    question: Callable[[str], Callable[[], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with silent_server() as silent:
        ask = question(silent.address)
        with pytest.raises(Unreachable) as told:
            ask()
        assert silent.address in told.value.what
        until(lambda: len(silent.taken) == 2)  # the question and the ping
        for _ in range(3):
            with pytest.raises(Unreachable):
                ask()
        assert len(silent.taken) == 2
        monkeypatch.setattr(
            silence.time, "monotonic", lambda now=silence.time.monotonic: now() + LONG
        )
        with pytest.raises(Unreachable):
            ask()
        until(lambda: len(silent.taken) > 2)  # a moment later it is asked again


@contextmanager
def slow_daemon() -> Generator[str]:
    """It answers a question only after it was pinged."""
    pinged = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/_ping":
                pinged.set()
            elif self.path != "/version":
                pinged.wait(LONG)
            body = b'{"ApiVersion": "1.41"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_a_slow_daemon_that_answers_a_ping_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dockerd, "PING_SECONDS", LONG)
    with slow_daemon() as address:
        assert docker_question(address)() == {"ApiVersion": "1.41"}


@pytest.mark.slow
def test_time_that_is_over_is_not_laid_to_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dockerd, "PATIENCE", LONG)
    with silent_server() as silent:
        ask = docker_question(silent.address)
        for asked in (1, 2):  # the second question is asked, too
            with pytest.raises(Unreachable), within(0.3):
                ask()
            until(lambda asked=asked: len(silent.taken) == asked)


def test_a_daemon_is_closed_while_somebody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dockerd, "PATIENCE", LONG)
    monkeypatch.setattr(dockerd, "TIMEOUT", LONG)
    with silent_server() as silent:
        daemon = Daemon(Address(f"tcp://{silent.address}"))

        def ask() -> None:
            with pytest.raises(Unreachable):
                daemon.get("/info")

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        until(lambda: silent.taken)
        closing = threading.Thread(target=daemon.close, daemon=True)
        closing.start()
        until(lambda: not closing.is_alive())
        assert asking.is_alive()
