"""What is said of places in a container, whatever runs it."""

from __future__ import annotations

import pytest

from tao_sdk.backends.mounts import Mount, cache_finding, read_mounts
from tao_sdk.model.finding import Severity


def test_a_cache_that_lies_on_no_mount_of_the_job_is_a_warning_with_the_mount_to_add() -> None:
    [found] = cache_finding("/cache/tao/", ["/data", "/cache2", "/cache/tao/deeper"])
    assert (found.severity, found.code) == (Severity.WARNING, "mount_path.no_mount")
    assert "[<folder>:/cache/tao]" in found.fix


def test_a_cache_on_a_mount_or_below_one_is_none() -> None:
    for target in ("/cache", "/cache/", "/cache/tao", "/"):
        assert cache_finding("/cache/tao", ["/data", target]) == []


@pytest.mark.parametrize(
    "given", ["file:///data:/in:ro", {"source": "file:///data", "target": "/in", "mode": "ro"}]
)
def test_the_source_of_a_mount_may_be_a_file_address(given: object) -> None:
    assert read_mounts([given], "/here", "/home/me") == [Mount("/data", "/in", True, False)]
