"""Which tests of net/ need a server of the network."""

from __future__ import annotations

import pytest

from support import marks


def pytest_itemcollected(item: pytest.Item) -> None:
    marks.mark_by_fixtures(item, "network", {"minio", "link"})
