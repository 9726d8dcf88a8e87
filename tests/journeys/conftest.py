"""The command as a person types it, in a home of its own; what it started is ended
after the test.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tao_command import Tao

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits" / "job.yaml"


@pytest.fixture
def example() -> str:
    return str(EXAMPLE)


@pytest.fixture
def tao(tmp_path: Path) -> Iterator[Tao]:
    command = Tao(tmp_path)
    command.env["PATH"] = (
        f"{Path(sys.executable).parent}:{command.env['PATH']}"  # jobs find the example's numpy
    )
    yield command
    for job in json.loads(command("ls", "--json").out or "[]"):
        if job["status"] in ("Pending", "Running"):
            command("cancel", job["id"], "--grace", "0.1s")
