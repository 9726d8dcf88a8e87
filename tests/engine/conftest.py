from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_sdk.client import Client
from tao_sdk.model.settings import Settings


@pytest.fixture
def callers_own() -> dict[str, str]:
    """What the caller's environment holds beside the least; a file of tests may say."""
    return {}


@pytest.fixture
def client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, callers_own: dict[str, str]
) -> Iterator[Client]:
    """A client with a home, a state folder and a current folder of its own."""
    monkeypatch.chdir(tmp_path)
    environ = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
    }
    with Client(settings=Settings({**environ, **callers_own})) as client:
        yield client
