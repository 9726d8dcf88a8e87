from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import dockerd_here
import pytest
from dockerd_here import Daemon

from tao_sdk.client import Client
from tao_sdk.model.settings import Settings


@pytest.fixture
def here() -> Daemon:
    return dockerd_here.daemon()


@pytest.fixture
def surroundings(here: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a caller with a state folder and a home of his own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DOCKER_", "TAO_", "NGC_"))}
    own = {"DOCKER_HOST": here.host, "TAO_SDK_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path / "home")}
    return {**kept, **own}


@pytest.fixture
def client(surroundings: dict[str, str]) -> Iterator[Client]:
    """A client whose jobs are all ended, and their containers removed, when the test is over."""
    with Client(settings=Settings(surroundings)) as client:
        yield client
        for job in client.list_jobs(look=False):
            if not job.status.terminal:
                client.cancel_job(job.id, grace=0)
            client.remove(job.id)
