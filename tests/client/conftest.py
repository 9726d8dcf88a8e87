"""An SDK of this machine with a state folder of its own, for the tests of what a client sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_sdk.model.settings import Settings
from tao_sdk.platforms.local import LocalSDK


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSDK]:
    monkeypatch.chdir(tmp_path)
    environ = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
    }
    with LocalSDK(settings=Settings(environ)) as sdk:
        yield sdk
