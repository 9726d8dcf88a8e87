"""Servers that jobs fetch from, and what a job's inputs became."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import marks
from support.servers import clients_here
from support.servers.clients_here import Clients
from support.servers.hub_server import HubServer
from support.servers.ngc_server import NgcServer
from support.servers.web_server import WebServer


def pytest_itemcollected(item: pytest.Item) -> None:
    marks.mark_by_fixtures(item, "network", {"clients"})


@pytest.fixture
def web() -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.close()


@pytest.fixture
def hub(jobs: Any) -> Iterator[HubServer]:
    server = HubServer()
    jobs.env["HF_ENDPOINT"] = server.url
    yield server
    server.close()


@pytest.fixture
def ngc(jobs: Any) -> Iterator[NgcServer]:
    server = NgcServer()
    server.keys = {"nvapi-acme": "acme", "oldkey": "acme"}
    jobs.env.update(NGC_CLI_API_URL=server.url, NGC_CLI_AUTH_URL=server.login, NGC_KEY="nvapi-acme")
    yield server
    server.close()


@pytest.fixture
def paths(jobs: Any) -> Any:
    """Run a job whose spec is its inputs' addresses; what the command found there."""

    def run(specs: dict[str, Any], inputs: Any = None, **more: Any) -> dict[str, Any]:
        declared = inputs if inputs is not None else list(specs)
        ran = jobs.run(
            "cat {config_path}", specs=specs, inputs=declared, config_format="json", **more
        )
        assert ran.code == 0, ran.raw.decode()
        return json.loads(ran.out)

    return run


@pytest.fixture
def refused(jobs: Any) -> Any:
    """Run a job that must not reach its command; the failure."""

    def run(specs: dict[str, Any], inputs: Any = None, **more: Any) -> dict[str, Any]:
        declared = inputs if inputs is not None else list(specs)
        ran = jobs.run("echo never", specs=specs, inputs=declared, config_format="json", **more)
        assert (ran.code, ran.out) == (125, b""), ran.raw.decode()
        return ran.failure

    return run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 100 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=100m", "tao-test", folder], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture(scope="session")
def clients() -> Clients:
    """The clients that people use."""
    return clients_here.clients()
