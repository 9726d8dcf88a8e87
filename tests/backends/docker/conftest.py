from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import marks
from support.caller import caller_environment
from support.dockerd import dockerd_here, registry_here
from support.dockerd.dockerd_here import BUSYBOX, Daemon
from support.ended_jobs import ending_jobs
from support.servers.ports import free_port
from tao_sdk.client import Client
from tao_sdk.model.settings import Settings


def pytest_itemcollected(item: pytest.Item) -> None:
    marks.mark_by_fixtures(item, "docker", {"here", "far"})
    marks.mark_by_fixtures(item, "network", {"with_bucket"})


@pytest.fixture
def here() -> Daemon:
    return dockerd_here.daemon()


@pytest.fixture
def surroundings(here: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a caller who uses the daemon."""
    monkeypatch.chdir(tmp_path)
    return caller_environment(tmp_path, DOCKER_HOST=here.host)


@pytest.fixture
def client(surroundings: dict[str, str]) -> Iterator[Client]:
    """A client whose jobs are all ended, and their containers removed, when the test is over."""
    yield from ending_jobs(Client(settings=Settings(surroundings)), remove=True)


@pytest.fixture
def half_registry() -> Iterator[str]:
    with registry_here.half_registry() as address:
        yield address


def certificates(folder: Path) -> None:
    """A CA, and a pair that serves for both sides."""
    run = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca-key.pem",
         "-out", "ca.pem", "-days", "2",
           "-subj", "/CN=test-ca"]  # fmt: skip
    subprocess.run(run, cwd=folder, check=True, capture_output=True)
    run = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out",
         "request.pem",
           "-subj", "/CN=localhost"]  # fmt: skip
    subprocess.run(run, cwd=folder, check=True, capture_output=True)
    (folder / "extensions").write_text(
        "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n"
    )
    run = ["openssl", "x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca-key.pem",
         "-CAcreateserial",
           "-days", "2", "-out", "cert.pem", "-extfile", "extensions"]  # fmt: skip
    subprocess.run(run, cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="session")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, str, Path]]:
    """A second daemon, reached over TLS: (daemon, its address, the certificates).

    What it sees below the folder `other` is another disk than this machine has there.
    """
    dockerd_here.daemon()
    folder = tmp_path_factory.mktemp("far")
    (folder / "certificates").mkdir()
    certificates(folder / "certificates")
    port = free_port()
    pair = folder / "certificates"
    flags = [
        "--bridge=none",
        "--host",
        f"tcp://127.0.0.1:{port}",
        "--tlsverify",
        f"--tlscacert={pair}/ca.pem",
    ]
    flags += [f"--tlscert={pair}/cert.pem", f"--tlskey={pair}/key.pem"]
    other = folder / "other"
    (other / "here").mkdir(parents=True)
    mount = f'mount -t tmpfs tmpfs {other} && mkdir {other}/there && exec "$@"'
    far = Daemon(
        folder / "data", folder, *flags, within=["unshare", "--mount", "sh", "-c", mount, "sh"]
    )
    far.start()
    try:
        far.docker("import", str(dockerd_here.busybox_root()), BUSYBOX)
        yield far, f"tcp://localhost:{port}", pair
    finally:
        dockerd_here.clear(far)
        far.stop()
        far.leave_no_mounts()
