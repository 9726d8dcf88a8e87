"""Which servers a test uses: its marks say so, and whatever leads to a server asks for the mark
here.

So `-m "not docker"` leaves out every test that uses dockerd, and no other. The marks are listed in
pyproject.toml.
"""

from __future__ import annotations

from collections.abc import Set

import pytest

running: list[pytest.Item] = []  # the test that runs; none in a process that a test has started


def mark_by_fixtures(item: pytest.Item, mark: str, fixtures: Set[str]) -> None:
    """Mark a test that uses one of these fixtures, be it by way of others."""
    if fixtures & set(getattr(item, "fixturenames", ())):
        item.add_marker(mark)


def need(mark: str) -> None:
    """Fail the test that runs unless it has this mark."""
    for item in running:
        if item.get_closest_marker(mark) is None:
            pytest.fail(
                f"{item.nodeid} uses what only tests marked `{mark}` may use. Mark it: "
                f"@pytest.mark.{mark}"
            )
