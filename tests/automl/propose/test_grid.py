"""Grids: every combination, both ends among them."""

from __future__ import annotations

from typing import Any

from support.simulated_search import SimulatedDriver, new_search
from tao_automl.space.search_block import read_parameters


def tried(parameters: Any, trials: int) -> list[dict[str, Any]]:
    space = read_parameters(parameters)
    driver = SimulatedDriver(
        new_search(1, space, algorithm="grid", max_trials=trials, first_as_is=False)
    )
    return [dict(trial.params) for trial in driver.run(lambda job: float(job.trial)).trials]


def test_numbers_have_as_many_levels_as_there_is_room_for() -> None:
    found = tried({"lr": {"min": 1e-4, "max": 1.0}, "opt": ["a", "b"]}, 10)
    assert len(found) == 10
    rates = sorted({one["lr"] for one in found})
    assert rates == [1e-4, 0.001, 0.01, 0.1, 1.0]


def test_what_does_not_apply_makes_no_points_of_its_own() -> None:
    parameters = {"opt": ["a", "b"], "m": {"choices": [1, 2, 3], "when": {"opt": "b"}}}
    assert tried(parameters, 20) == [
        {"opt": "a"}, {"opt": "b", "m": 1}, {"opt": "b", "m": 2}, {"opt": "b", "m": 3},
    ]  # fmt: skip


def test_of_a_grid_that_is_too_large_a_part_of_it_all_is_taken() -> None:
    found = tried({"a": list(range(10)), "b": list(range(10))}, 30)
    assert len(found) == 30
    assert len({one["a"] for one in found}) > 6
