from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ended_jobs import ending_jobs
from support.places import PLACES, Place
from tao_sdk.client import Client


def pytest_itemcollected(item: pytest.Function) -> None:
    """A test on Docker, SLURM or Kubernetes has its mark. All take their time, on any platform."""
    item.add_marker("slow")
    platform = getattr(item, "callspec", None) and item.callspec.params.get("place")
    if platform in ("docker", "slurm", "kubernetes"):
        item.add_marker(platform)


@pytest.fixture(params=list(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return PLACES[request.param](tmp_path)


@pytest.fixture
def client(place: Place) -> Iterator[Client]:
    """A client whose jobs are all ended when the test is over, whatever became of it."""
    yield from ending_jobs(place.client(), grace=0.5)
