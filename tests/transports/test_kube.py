"""Requests to an API server, against a small server of the test's own that is busy or slow."""

from __future__ import annotations

import base64
import http.server
import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tao_sdk.model.errors import CredentialError, Unreachable
from tao_sdk.transports.kube import Kube, KubeError, Times
from tao_sdk.transports.kube_login import KubeLogin
from tao_sdk.transports.kubeconfig import Cluster, Login, find_cluster
from tao_sdk.transports.silence import within

Answering = Callable[[http.server.BaseHTTPRequestHandler, int], None]


@contextmanager
def serving(answering: Answering) -> Generator[tuple[str, list[str]]]:
    """(the address of a server that answers by `answering(handler, number of the request)`, the
    Authorization of each request).
    """
    logins: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            logins.append(self.headers.get("Authorization", ""))
            answering(self, len(logins))

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", logins
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "kind", "foreign"),
    [
        ("/version", "text/plain", True),
        ("/api/v1/namespaces/a/pods/b", "text/html;charset=utf-8", True),
        ("/apis/kueue.x-k8s.io/v1beta1", "text/plain", False),
    ],
)
def test_a_web_server_in_the_place_of_the_cluster_says_nothing_of_a_job(
    path: str, kind: str, foreign: bool
) -> None:
    """What it does not know could be taken for a job that somebody removed."""

    def not_found(handler: http.server.BaseHTTPRequestHandler, _: int) -> None:
        answer(handler, "not found", 404, Content_Type=kind)

    with serving(not_found) as (address, _):
        kube = Kube(Cluster(address, Login()), {})
        with pytest.raises(Unreachable if foreign else KubeError) as error:
            kube.ask("GET", path)
    if foreign:
        assert error.value.what.startswith(f"{address} is no Kubernetes API server: ")
        assert error.value.command == "kubectl config view --minify"


def answer(
    handler: http.server.BaseHTTPRequestHandler, body: object, status: int = 200, **headers: str
) -> None:
    data = json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(data)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(data)


def kube(server: str, login: Login | None = None) -> Kube:
    return Kube(Cluster(server, login or Login()), {})


@pytest.mark.slow
def test_a_busy_server_is_asked_again_and_then_answers() -> None:
    def busy_once(handler: http.server.BaseHTTPRequestHandler, number: int) -> None:
        if number == 1:
            answer(handler, {"message": "too many requests"}, 429, Retry_After="0")
        else:
            answer(handler, {"items": []})

    with serving(busy_once) as (server, asked):
        assert kube(server).ask("GET", "/api") == {"items": []}
        assert len(asked) == 2


@pytest.mark.slow
def test_a_server_that_stays_busy_could_not_answer_rather_than_refused() -> None:
    def stay_busy(handler: http.server.BaseHTTPRequestHandler, _: int) -> None:
        answer(handler, {}, 429, Retry_After="0")

    with serving(stay_busy) as (server, _), pytest.raises(Unreachable, match="could not answer"):
        kube(server).ask("GET", "/api", times=Times(give_up=0.1))


@pytest.mark.slow
def test_a_server_in_trouble_could_not_answer_and_a_refusal_has_its_words() -> None:
    def break_down(handler: http.server.BaseHTTPRequestHandler, _: int) -> None:
        answer(handler, {"message": "etcd has no leader"}, 500)

    def refuse(handler: http.server.BaseHTTPRequestHandler, _: int) -> None:
        answer(handler, {"message": "jobs is forbidden", "reason": "Forbidden"}, 403)

    with serving(break_down) as (server, _), pytest.raises(Unreachable) as told:
        kube(server).ask("GET", "/api")
    assert told.value.why == "etcd has no leader"
    with serving(refuse) as (server, _), pytest.raises(KubeError) as refused:
        kube(server).ask("GET", "/api")
    assert (refused.value.status, refused.value.what) == (403, "jobs is forbidden")


@pytest.mark.slow
def test_a_token_that_the_server_no_longer_takes_is_read_again_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    def take_the_new_one(handler: http.server.BaseHTTPRequestHandler, number: int) -> None:
        token.write_text("new")
        if handler.headers["Authorization"] == "Bearer old":
            answer(handler, {"message": "expired"}, 401)
        else:
            answer(handler, {})

    with serving(take_the_new_one) as (server, logins):
        kube(server, Login(token_file=str(token))).ask("GET", "/api")
    assert logins == ["Bearer old", "Bearer new"]


@pytest.mark.slow
def test_a_login_that_cannot_be_renewed_is_refused_at_once() -> None:
    def refuse(handler: http.server.BaseHTTPRequestHandler, _: int) -> None:
        answer(handler, {}, 401)

    with serving(refuse) as (server, logins), pytest.raises(CredentialError):
        kube(server, Login(token="wrong")).ask("GET", "/api")
    assert len(logins) == 1


@pytest.mark.slow
def test_an_answer_that_trickles_is_given_up() -> None:
    ended = threading.Event()

    def trickle(handler: http.server.BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        try:
            while not ended.wait(0.02):
                handler.wfile.write(b" ")
        except OSError:
            return

    with serving(trickle) as (server, _):
        with pytest.raises(Unreachable, match="cannot be reached"):
            kube(server).ask("GET", "/api", times=Times(give_up=0.5))
        ended.set()


@pytest.mark.slow
def test_many_questions_have_one_limit_together() -> None:
    with serving(lambda handler, _: answer(handler, {})) as (server, asked):
        asks = kube(server)
        with within(0.5), pytest.raises(Unreachable) as told:
            while True:
                asks.ask("GET", "/api")
                time.sleep(0.05)
        assert told.value.nothing_sent
        answered = len(asked)
        asks.ask("GET", "/api")  # behind it nothing is limited
        assert len(asked) == answered + 1


@pytest.mark.slow
def test_an_answer_that_was_read_to_its_end_leaves_its_connection_for_the_next() -> None:
    seen: set[Any] = set()

    def note(handler: http.server.BaseHTTPRequestHandler, _: int) -> None:
        seen.add(handler.client_address)
        answer(handler, {"message": "x" * 100_000}, 200)

    with serving(note) as (server, _):
        asks = kube(server)
        for _turn in range(3):
            asks.ask("GET", "/api")
    assert len(seen) == 1


def test_a_context_with_an_auth_provider_logs_in_by_its_token(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    login = KubeLogin(find_cluster([oidc_config(tmp_path)], "", "", ""), {})
    assert login.credential().header == f"Bearer {id_token()}"


def id_token() -> str:
    """A token of OpenID Connect that is good for a day; who signed it is the cluster's to say."""

    def part(content: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'exp': 4102444800})}.signature"


def oidc_config(folder: Path) -> Path:
    provider = {"name": "oidc", "config": {"id-token": id_token(), "client-id": "tests"}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
        "users": [{"name": "me", "user": {"auth-provider": provider}}],
    }
    path = folder / "config"
    path.write_text(json.dumps(config))
    return path
