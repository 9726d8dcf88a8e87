"""The Gaussian process as a sampler: it finds what is good, also at a bound, beside what runs and
fails.
"""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import numpy as np
import pytest

from support.simulated_search import SimulatedDriver, new_search
from tao_automl.decisions import Known, Outcome, StartTrial
from tao_automl.propose.gaussian import column_features, features, settled
from tao_automl.propose.process import fitted_process, log_improvement, most_likely
from tao_automl.space.search_block import read_parameters
from tao_automl.state import best_trial


def best_loss(search: Any) -> float:
    best = best_trial(search)
    assert best is not None
    return best.results[-1].values["val_loss"]


def bowl(params: Any) -> float:
    return (math.log10(params["lr"]) + 3) ** 2 + (params["m"] - 0.7) ** 2 * 4


SPACE = {"lr": {"min": 1e-6, "max": 1e-1}, "m": {"min": 0.0, "max": 0.99}}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["bayesian", "bfbo"])
def test_a_model_is_far_better_than_chance_on_a_bowl(algorithm: str) -> None:
    found = {
        name: median(
            best_loss(
                SimulatedDriver(
                    new_search(
                        seed,
                        read_parameters(SPACE),
                        algorithm=name,
                        max_trials=20,
                        first_as_is=False,
                    )
                ).run(lambda job: bowl(job.params))
            )
            for seed in range(3)
        )
        for name in (algorithm, "random")
    }
    assert found[algorithm] < found["random"] / 5


@pytest.mark.parametrize("bound", [0.1, 1.0])
def test_an_optimum_at_a_bound_is_found_exactly(bound: float) -> None:
    space = read_parameters({"x": {"min": 0.1, "max": 1.0}, "y": {"min": -5, "max": -1}})
    driver = SimulatedDriver(
        new_search(2, space, algorithm="bayesian", max_trials=16, first_as_is=False)
    )
    search = driver.run(lambda job: abs(job.params["x"] - bound) + abs(job.params["y"] + 5) / 10)
    best = best_trial(search)
    assert best is not None
    assert best.params == {"x": pytest.approx(bound, abs=0.01), "y": -5}
    assert all(
        0.1 <= trial.params["x"] <= 1.0 and -5 <= trial.params["y"] <= -1 for trial in search.trials
    )


def test_trials_that_run_at_once_differ() -> None:
    driver = SimulatedDriver(
        new_search(1, read_parameters(SPACE), algorithm="bayesian", max_trials=16, max_concurrent=4)
    )
    driver.look()
    while len(driver.search.trials) < 16:
        for job in list(driver.live):
            loss = bowl({"lr": 0.001, "m": 0.5, **driver.live[job].params})
            driver.look(Known((driver.finish(job, values={"val_loss": loss}),)))
    points = [driver.search.space.encode(job.params) for job in driver.live.values()]
    known = [point for point in points if point]
    apart = [math.dist(one, other) for one in known for other in known if one is not other]
    assert min(apart) > 1e-3
    assert len(driver.live) == 4


@pytest.mark.slow
def test_a_region_where_trials_fail_is_avoided() -> None:
    """The half that looks best fails always, so the best is at its edge: that is looked for, and
    little is wasted far beyond. A failure is no number, and still is learnt from.
    """
    space = read_parameters({"x": {"min": 0.0, "max": 1.0}, "y": {"min": 0.0, "max": 1.0}})
    shares: list[float] = []
    for seed in range(3):
        driver = SimulatedDriver(
            new_search(seed, space, algorithm="bayesian", max_trials=24, first_as_is=False)
        )
        driver.look()
        beyond: list[bool] = []
        while not driver.end:
            job, decision = next(iter(driver.live.items()))
            assert isinstance(decision, StartTrial)
            fails = decision.params["x"] > 0.5
            beyond.append(decision.params["x"] > 0.6)
            values = {"val_loss": -decision.params["x"] + decision.params["y"]}
            outcome = Outcome.FAILED if fails else Outcome.COMPLETE
            driver.look(Known((driver.finish(job, outcome=outcome, values=values),)))
        shares.append(sum(beyond[12:]) / 12)
        assert best_loss(driver.search) < -0.48
    assert median(shares) < 0.2


def test_several_goals_spread_over_the_front() -> None:
    space = read_parameters({"x": {"min": 0.0, "max": 1.0}})
    driver = SimulatedDriver(
        new_search(
            1, space, algorithm="bayesian", objectives=["val_loss", "cost"], max_trials=25,
            first_as_is=False,
        )
    )  # fmt: skip
    driver.look()
    while not driver.end:
        job, decision = next(iter(driver.live.items()))
        x = decision.params["x"]
        driver.look(Known((driver.finish(job, values={"val_loss": x**2, "cost": (x - 1) ** 2}),)))
    tried = [trial.params["x"] for trial in driver.search.trials[10:]]
    assert min(tried) < 0.35
    assert max(tried) > 0.65


def test_choices_are_switches_and_whole_numbers_are_cells() -> None:
    space = read_parameters({"c": ["a", "b", "c"], "n": {"min": 1, "max": 4}})
    inside, owners = features(space.columns, np.array([[0.1, 0.1], [0.5, 0.1], [0.9, 0.9]]))
    assert inside.shape == (3, 4)
    assert owners.tolist() == [0, 0, 0, 1]
    apart = np.linalg.norm(inside[:, None, :3] - inside[None, :, :3], axis=2)
    assert apart[0, 1] == pytest.approx(apart[0, 2]) == pytest.approx(1)
    cells = column_features(space.columns[1], np.array([0.0, 0.2, 0.26, 1.0]))
    assert cells[:, 0].tolist() == [0.125, 0.125, 0.375, 0.875]


def test_what_does_not_apply_makes_no_difference_to_the_model() -> None:
    space = read_parameters(
        {"opt": ["adam", "sgd"], "momentum": {"min": 0.0, "max": 1.0, "when": {"opt": "sgd"}}}
    )
    found = settled(space, np.array([[0.2, 0.1], [0.2, 0.9], [0.8, 0.25]]))
    assert found.tolist() == [[0.25, 0.5], [0.25, 0.5], [0.75, 0.25]]


def test_the_process_interpolates_and_doubts_what_is_far() -> None:
    points = np.linspace(0, 1, 9)[:, None]
    values = np.sin(4 * points[:, 0])
    values = (values - values.mean()) / values.std()
    process = fitted_process(points, values, np.array([0]))
    mean, deviation = process.predict(points)
    assert np.abs(mean - values).max() < 0.1
    _, far = process.predict(np.array([[4.0]]))
    assert far[0] > 3 * deviation.max()


def test_a_length_is_long_where_nothing_changes() -> None:
    chance = np.random.default_rng(1)
    points = chance.random((30, 2))
    apart = (points[:, None, :] - points[None, :, :]) ** 2
    found = most_likely(np.moveaxis(apart, 2, 0), np.sin(6 * points[:, 0]))
    assert found[1] > found[0] + 1


def test_the_improvement_is_exact_where_it_is_tiny() -> None:
    """Beside values that were computed with 50 digits."""
    away = np.array([0.0, -3.0, -4.99, -5.01, -20.0])
    found = log_improvement(-away, np.ones(5), 0.0)
    exact = [-0.9189385, -7.8696609, -16.6976100, -16.8055500, -206.9173600]
    assert np.abs(found - exact).max() < 0.02
