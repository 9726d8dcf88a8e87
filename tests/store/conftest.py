from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_sdk.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "jobs.db"


@pytest.fixture(params=[True, False], ids=["wal", "rollback journal"])
def journal(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path) as store:
        yield store
