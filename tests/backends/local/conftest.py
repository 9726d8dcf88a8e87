from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.machine import Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """This machine with a state folder of its own; whatever was started on it is
    ended afterwards.
    """
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    machine = Machine(tmp_path)
    yield machine
    machine.clear()
