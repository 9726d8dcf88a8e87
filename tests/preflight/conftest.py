"""A registry of the tests' own, with a password."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import marks
from support.servers.registry_alone import LoneRegistry, lone_registry


def pytest_itemcollected(item: pytest.Item) -> None:
    marks.mark_by_fixtures(item, "network", {"registry"})


@pytest.fixture(scope="package")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoneRegistry]:
    with lone_registry(tmp_path_factory.mktemp("registry")) as made:
        yield made
