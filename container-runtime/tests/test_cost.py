"""What the shim costs beside the Go one. Memory is exact; times are compared in one run, with room
for a busy machine.
"""

from __future__ import annotations

import sys

import pytest

from conftest import GO, PACKAGE, need

sys.path.insert(0, str(PACKAGE / "bench"))
import compare

BUSY_MACHINE = 2  # times the limit that `make bench` sets


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> compare.Bench:
    need("the Go shim", (GO / "nvidia-container-runtime").exists())
    return compare.Bench(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize("mode", ["legacy", "cdi"])
def test_peak_memory_stays_below_ten_megabytes(
    bench: compare.Bench, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "ROUNDS", 5)
    bench.configure(mode, str(bench.noop))
    for words in (("state", "x"), ("create", "--bundle", str(bench.bundle), "x")):
        _, memory = bench.against_go(f"{words[0]} {mode}", 1.5, *words)
        assert memory.holds, str(memory)


def test_a_command_that_creates_nothing_costs_less_than_the_go_shims(
    bench: compare.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "ROUNDS", 40)
    bench.configure("legacy", str(bench.noop))
    cost, _ = bench.against_go("state", 0.4, "state", "x")
    assert cost.value < cost.limit * BUSY_MACHINE, str(cost)
