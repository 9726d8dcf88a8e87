"""What a daemon, docker's own files or a stranger's container say in a form that nobody expects:
one job's error, or none.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.dockerd.dockerd_here import BUSYBOX, Daemon
from tao_sdk.backends.containers import logs, window
from tao_sdk.backends.containers.log_frames import Frames, LogPositions
from tao_sdk.backends.contract import LogRequest
from tao_sdk.backends.docker.daemon import address
from tao_sdk.backends.registry_login import docker_folder
from tao_sdk.client import Client
from tao_sdk.model.errors import NoLog, Unreachable, UsageError
from tao_sdk.model.observation import Phase
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.transports import dockerd


@contextmanager
def saying(body: bytes) -> Generator[dockerd.Daemon]:
    """A daemon that answers everything with this."""

    class Says(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"ApiVersion": "1.41"}' if "version" in self.path else body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Says)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield dockerd.Daemon(dockerd.Address(f"tcp://127.0.0.1:{server.server_port}"))
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_an_answer_that_is_no_json_is_none() -> None:
    with saying(b"<html>") as daemon, pytest.raises(Unreachable, match="cannot be understood"):
        daemon.get("/info")


@pytest.mark.slow
def test_an_answer_without_an_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dockerd, "MOST_JSON", 1 << 20)
    monkeypatch.setattr(dockerd, "LONGEST_LINE", 1 << 20)
    with saying(b'"' + b"x" * (3 << 20)) as daemon:
        with pytest.raises(Unreachable, match="more than 1 MiB"):
            daemon.get("/info")
        with pytest.raises(Unreachable, match="line without an end"):
            list(daemon.read_lines("POST", "/images/create", {}))
        with pytest.raises(Unreachable, match="more than 1 MiB"):
            daemon.read_file("any", "/etc/passwd")


@pytest.mark.slow
def test_lines_of_a_pull_that_are_no_objects_are_passed_over() -> None:
    with saying(b'3\n["error"]\n\n{"status": "ok"}\n') as daemon:
        assert list(daemon.read_lines("POST", "/images/create", {})) == [{"status": "ok"}]
    with (
        saying(b'{"status": \n') as daemon,
        pytest.raises(Unreachable, match="cannot be understood"),
    ):
        list(daemon.read_lines("POST", "/images/create", {}))


def test_a_frame_of_a_log_is_not_waited_for_without_end() -> None:
    frames = Frames(LogPositions())
    with pytest.raises(ValueError, match="longer than any"):
        frames.feed_block(b"\x01\0\0\0\xff\xff\xff\xff2026")


@pytest.mark.slow
@pytest.mark.parametrize(
    "log", [b"\x01\0\0\0\xff\xff\xff\xff2026", b"\x09\0\0\0\0\0\0\x20" + b"x" * 32]
)
def test_what_is_no_log_is_told_as_that(log: bytes) -> None:
    with saying(log) as daemon, pytest.raises(NoLog, match="cannot be read"):
        list(logs.read(daemon, "any", LogRequest(), lambda: True))


def test_a_container_that_cannot_be_understood_costs_only_its_own_job_a_look(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [
        client.submit(JobSpec(image=BUSYBOX, command="true", gpu_count=0), "docker").job
        for _ in range(2)
    ]
    backend = client.engine.backend("docker")
    refs = [client.engine.ref_of(job) for job in jobs]
    inspect = backend.containers.inspect  # pyright: ignore

    def half(name: str) -> object:
        seen = inspect(name)
        return (
            type(seen)({**seen.seen, "State": {"Status": "exited"}})
            if refs[0] and name == refs[0].unique_id
            else seen
        )

    assert client.wait(jobs[1].id, timeout=300).status is Status.COMPLETE
    with monkeypatch.context() as patch:
        patch.setattr(backend.containers, "inspect", half)  # pyright: ignore
        seen = backend.observe([ref for ref in refs if ref])
    assert [each.phase for each in seen.values()] == [Phase.UNREACHABLE, Phase.SUCCEEDED]


def test_a_strangers_labels_are_no_trouble(client: Client, here: Daemon) -> None:
    label = f"{window.LABEL}=never"
    stranger = here.docker("create", "--label", label, BUSYBOX, "true").stdout.strip()
    try:
        window.sweep_windows(dockerd.Daemon(dockerd.Address(here.host)))
        assert client.doctor("docker")
    finally:
        here.docker("rm", "--force", stranger)


@pytest.mark.parametrize(
    "text",
    ["[1]", '{"auths": 3, "credHelpers": ["a"]}', "{" * 100_000, '{"currentContext": ["a"]}'],
)
def test_a_docker_config_in_another_form_is_told_or_passed_over(
    surroundings: dict[str, str], text: str
) -> None:
    folder = Path(surroundings["HOME"]) / ".docker"
    folder.mkdir()
    (folder / "config.json").write_text(text)
    with Client(settings=Settings(surroundings)) as client:
        assert client.doctor("docker")


@pytest.mark.parametrize("meta", [[], {"Endpoints": 3}, {"Endpoints": {"docker": []}}])
def test_a_docker_context_in_another_form_is_not_there(
    surroundings: dict[str, str], meta: object
) -> None:
    environ = {name: value for name, value in surroundings.items() if name != "DOCKER_HOST"}
    settings = Settings({**environ, "DOCKER_CONTEXT": "odd"})
    position = (
        docker_folder(settings) / "contexts" / "meta" / address.hashlib.sha256(b"odd").hexdigest()
    )
    position.mkdir(parents=True)
    (position / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(UsageError, match="There is no docker context 'odd'"):
        address.find_address(settings)
