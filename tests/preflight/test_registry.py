"""One look at an image in a registry: what it says, and what a hostile one gets."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cluster.cluster_images import NGC_KEY
from support.servers.registry_alone import LoneRegistry
from tao_sdk.backends.image_name import read
from tao_sdk.model.finding import Severity
from tao_sdk.model.machines import Machines
from tao_sdk.preflight import registry as looking
from tao_sdk.preflight.datasets import NotSeen
from tao_sdk.preflight.images import disk_findings, registry_findings
from tao_sdk.preflight.registry import NoImage, look_at_image
from tao_sdk.preflight.registry_login import find_login

SECRET = "a-password-of-the-tests"
MANIFEST = {"layers": [{"size": 7}, {"size": -1}, {"size": "x"}]}


def test_a_registry_says_whether_an_image_is_there_and_for_which_machines(
    registry: LoneRegistry, tmp_path: Path
) -> None:
    environ = {"PATH": "/usr/bin:/bin", "DOCKER_CONFIG": registry.log_in(tmp_path)}
    arm = Machines(archs=("arm64",))

    def codes(image: str, host: Machines = arm) -> list[tuple[str, str]]:
        found, _ = registry_findings(read(f"{registry.name}/tests/{image}"), environ, host)
        assert NGC_KEY not in str(found)
        return [(each.code, each.what.partition("/tests/")[2]) for each in found]

    assert codes("both:1") == [
        ("image.there", "both:1 can be pulled: amd64, arm64, 2.0 kB, with a login.")
    ]
    assert codes("arm:1") == [("image.there", "arm:1 can be pulled: arm64, 1.0 kB, with a login.")]
    assert codes("one:1") == [
        ("image.architecture", "one:1 is made for amd64; the machine is arm64.")
    ]
    assert [code for code, _ in codes("one:2")] == ["image.missing"]
    assert [code for code, _ in codes("one:1", Machines(free=500))] == ["image.disk"]
    assert [code for code, _ in codes("one:1", Machines(free=1500))] == [
        "image.there",
        "image.disk",
    ]
    (found,), _ = registry_findings(read(f"{registry.name}/tests/one:1"), {}, arm)
    assert (found.code, found.command) == ("image.login", f"docker login {registry.name}")
    assert "authentication required (UNAUTHORIZED)" in found.why


# Registries that are none of ours


class Answers(http.server.BaseHTTPRequestHandler):
    """As `paths` of the server says: path -> (status, headers, body)."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        seen: list[tuple[str, str]] = self.server.seen  # pyright: ignore
        login = self.headers.get("authorization", "")
        seen.append((self.path.partition("?")[0], login))
        status, headers, body = self.server.answer(self.path, login)  # pyright: ignore
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        del format, args


class Server(http.server.ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.seen: list[tuple[str, str]] = []
        self.name = f"127.0.0.1:{self.server_port}"

    def answer(self, path: str, login: str) -> tuple[int, Mapping[str, str], bytes]:
        raise NotImplementedError


@contextmanager
def serving(server: Server) -> Generator[Server]:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def logged_in(folder: Path, name: str) -> dict[str, str]:
    word = base64.b64encode(f"me:{SECRET}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {name: {"auth": word}}}))
    return {"DOCKER_CONFIG": str(folder)}


class WithTokens(Server):
    """Gives a token for nothing, and takes only that of a login."""

    def answer(self, path: str, login: str) -> tuple[int, Mapping[str, str], bytes]:
        if path.startswith("/token"):
            token = "of-somebody" if login else "of-nobody"
            return 200, {}, json.dumps({"token": token}).encode()
        if login == "Bearer of-somebody":
            return 200, {}, json.dumps(MANIFEST).encode()
        told = {"errors": [{"code": "DENIED", "message": f"{login} and {SECRET} will not do"}]}
        realm = f'Bearer realm="http://{self.name}/token",service="tests"'
        return 401, {"www-authenticate": realm}, json.dumps(told).encode()


@pytest.mark.slow
def test_a_token_is_asked_for_without_a_login_first_and_never_shown(tmp_path: Path) -> None:
    with serving(WithTokens()) as server:
        name = read(f"{server.name}/a/b:1")
        image = look_at_image(name, logged_in(tmp_path, server.name))
        assert (image.private, image.size) == (True, 7)
        assert [bool(login) for path, login in server.seen if path == "/token"] == [False, True]
        with pytest.raises(NoImage) as refused:
            look_at_image(name, logged_in(tmp_path, "other.example"))
        assert "of-nobody" not in refused.value.words
        assert "DENIED" in refused.value.words


class LeadingAway(Server):
    """Wants a login, and leads on to another host."""

    to = ""

    def answer(self, path: str, login: str) -> tuple[int, Mapping[str, str], bytes]:
        if not login:
            return 401, {"www-authenticate": 'Basic realm="tests"'}, b"{}"
        return 307, {"location": f"http://{self.to}{path}"}, b""


class Taking(Server):
    def answer(self, path: str, login: str) -> tuple[int, Mapping[str, str], bytes]:
        return 200, {}, json.dumps(MANIFEST).encode()


@pytest.mark.slow
def test_a_redirect_takes_no_login_to_another_host(tmp_path: Path) -> None:
    with serving(LeadingAway()) as server, serving(Taking()) as other:
        assert isinstance(server, LeadingAway)
        server.to = other.name
        look_at_image(read(f"{server.name}/a/b:1"), logged_in(tmp_path, server.name))
        assert [login for _, login in other.seen] == [""]
        assert any(login.startswith("Basic ") for _, login in server.seen)


class AskingElsewhere(Server):
    """Leads on to another host before it has asked for a login."""

    to = ""

    def answer(self, path: str, login: str) -> tuple[int, Mapping[str, str], bytes]:
        return 307, {"location": f"http://{self.to}{path}"}, b""


@pytest.mark.slow
def test_a_host_that_a_registry_leads_to_gets_no_login_when_it_asks_for_one(
    tmp_path: Path,
) -> None:
    with serving(AskingElsewhere()) as server, serving(WithTokens()) as other:
        assert isinstance(server, AskingElsewhere)
        server.to = other.name
        with pytest.raises(NoImage):
            look_at_image(read(f"{server.name}/a/b:1"), logged_in(tmp_path, server.name))
        assert other.seen == [("/v2/a/b/manifests/1", "")]


class InTheClear(Server):
    """Names a server of tokens on another machine, without TLS."""

    def answer(self, path: str, login: str) -> tuple[int, Mapping[str, str], bytes]:
        return 401, {"www-authenticate": 'Bearer realm="http://192.0.2.1/token"'}, b"{}"


class Endless(Server):
    def answer(self, path: str, login: str) -> tuple[int, Mapping[str, str], bytes]:
        return 200, {}, b"[" * (looking.LARGEST + 1)


class Silent(Server):
    def answer(self, path: str, login: str) -> tuple[int, Mapping[str, str], bytes]:
        threading.Event().wait(5)
        return 200, {}, b"{}"


class NoMapping(Server):
    def answer(self, path: str, login: str) -> tuple[int, Mapping[str, str], bytes]:
        return 200, {}, b'["accept our terms first"]'


class NoRegistry(Server):
    def answer(self, path: str, login: str) -> tuple[int, Mapping[str, str], bytes]:
        return 200, {}, b"<html>"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "told"),
    [
        (Endless, "larger than 4 MiB"),
        (Silent, "did not answer within"),
        (NoRegistry, "is no registry. The answer is no JSON."),
        (NoMapping, "is no manifest"),
        (InTheClear, "names a server of tokens without TLS"),
    ],
)
def test_an_odd_server_costs_little_and_is_not_taken_for_an_answer(
    server: type[Server], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server is Silent:
        monkeypatch.setattr(looking, "SECONDS", 0.5)
    with serving(server()) as running, pytest.raises(NotSeen) as unseen:
        look_at_image(read(f"{running.name}/a:1"), {})
    assert told in unseen.value.why


@pytest.mark.slow
def test_a_registry_that_nobody_reaches_is_no_answer() -> None:
    found, image = registry_findings(read("127.0.0.1:1/a:1"), {}, Machines())
    assert ([each.code for each in found], image) == (["image.not_seen"], None)


@pytest.mark.parametrize(
    ("host", "here"),
    [("localhost:5000", True), ("127.0.0.1", True), ("127.x.example", False), ("a.example", False)],
)
def test_only_a_registry_of_this_machine_may_have_no_tls(host: str, here: bool) -> None:
    assert looking.is_loopback(host) is here


# Logins


def test_a_login_is_that_of_ngc_or_what_docker_keeps(tmp_path: Path) -> None:
    assert find_login("nvcr.io", {"NGC_KEY": "k"}) == ("$oauthtoken", "k")
    environ = {**logged_in(tmp_path, "https://index.docker.io/v1/"), "NGC_KEY": "k"}
    assert find_login("", environ) == ("me", SECRET)
    assert find_login("other.example", environ) is None
    (tmp_path / "config.json").write_text('{"auths": [], "credsStore": "../x"}')
    assert find_login("other.example", environ) is None


def test_a_credential_helper_is_asked(tmp_path: Path) -> None:
    helper = tmp_path / "docker-credential-tests"
    helper.write_text(
        '#!/bin/sh\n[ "$(cat)" = a.example ] && echo \'{"Username": "u", "Secret": "s"}\''
    )
    helper.chmod(0o755)
    (tmp_path / "config.json").write_text('{"credHelpers": {"a.example": "tests"}}')
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "DOCKER_CONFIG": str(tmp_path)}
    assert find_login("a.example", environ) == ("u", "s")
    assert find_login("b.example", environ) is None


def test_an_image_that_may_not_fit_is_a_warning() -> None:
    assert not [*disk_findings("a", 10, None)]
    assert not [*disk_findings("a", 10, 30)]
    assert [each.severity for each in disk_findings("a", 10, 29)] == [Severity.WARNING]
    assert [each.severity for each in disk_findings("a", 10, 9)] == [Severity.ERROR]
