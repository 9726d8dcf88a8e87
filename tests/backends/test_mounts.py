"""What is said of places in a container, whatever runs it."""

from __future__ import annotations

from tao_sdk.backends.mounts import cache_finding
from tao_sdk.model.finding import Severity


def test_a_cache_that_lies_on_no_mount_of_the_job_is_a_warning_with_the_mount_to_add() -> None:
    [found] = cache_finding("/cache/tao/", ["/data", "/cache2", "/cache/tao/deeper"])
    assert (found.severity, found.code) == (Severity.WARNING, "mount_path.no_mount")
    assert "[<folder>:/cache/tao]" in found.fix


def test_a_cache_on_a_mount_or_below_one_is_none() -> None:
    for target in ("/cache", "/cache/", "/cache/tao", "/"):
        assert cache_finding("/cache/tao", ["/data", target]) == []
