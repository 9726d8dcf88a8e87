from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ended_jobs import ending_jobs
from support.lepton import lepton_here
from support.lepton.rest_server import RestServer
from tao_sdk.client import Client
from tao_sdk.model.settings import Settings


@pytest.fixture
def server() -> Iterator[RestServer]:
    """The workspace of the session. The faults and settings of a test end with it."""
    found = lepton_here.server()
    yield found
    found.faults.clear()
    found.workspace.reset()


@pytest.fixture
def settings(server: RestServer, tmp_path: Path) -> Settings:
    return Settings({**lepton_here.surroundings(), "TAO_SDK_STATE_DIR": str(tmp_path / "state")})


@pytest.fixture
def client(settings: Settings) -> Iterator[Client]:
    yield from ending_jobs(Client(settings=settings, watch=False))
