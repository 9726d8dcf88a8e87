"""What follows from a search: the best trial, the front, limits."""

from __future__ import annotations

from typing import Any

from support.simulated_search import SimulatedDriver, new_search
from tao_automl.decisions import Known, Outcome
from tao_automl.state import best_trial, front, ranked_trials


def searched(values: list[dict[str, float] | None], **settings: Any) -> SimulatedDriver:
    """A search whose trials end with these values; None: it fails."""
    driver = SimulatedDriver(new_search(algorithm="random", max_trials=len(values), **settings))
    driver.look()
    for number, found in enumerate(values, 1):
        outcome = Outcome.FAILED if found is None else Outcome.COMPLETE
        driver.look(Known((driver.finish((number, 0), outcome=outcome, values=found),)))
    return driver


def numbers(trials: Any) -> list[int]:
    return [trial.number for trial in trials]


def test_the_front_is_what_no_other_trial_beats_in_every_goal() -> None:
    values = [
        {"accuracy": 0.9, "latency": 30.0},
        {"accuracy": 0.8, "latency": 10.0},
        {"accuracy": 0.85, "latency": 40.0},
        None,
        {"accuracy": 0.95, "latency": 50.0},
        {"accuracy": 0.8, "latency": 10.0},
    ]
    driver = searched(values, objectives=["accuracy", "latency"])
    assert numbers(front(driver.search)) == [1, 2, 5, 6]


def test_what_breaks_a_limit_comes_after_everything_that_keeps_it() -> None:
    values = [
        {"accuracy": 0.9, "latency": 30.0},
        {"accuracy": 0.6, "latency": 10.0},
        {"accuracy": 0.7, "latency": 20.0},
        {"accuracy": 0.99, "latency": 21.0},
    ]
    objectives = ["accuracy", {"metric": "latency", "at_most": 20}]
    search = searched(values, objectives=objectives).search
    assert numbers(ranked_trials(search)) == [3, 2, 4, 1]
    assert numbers(front(search)) == [3]


def test_weight_and_scale_make_one_number_of_several_goals() -> None:
    values = [{"accuracy": 0.9, "latency": 30.0}, {"accuracy": 0.8, "latency": 10.0}]
    plain = searched(values, objectives=["accuracy", "latency"]).search
    best = best_trial(plain)
    assert best is not None
    assert best.number == 2
    scaled: list[Any] = ["accuracy", {"metric": "latency", "scale": 1000}]
    best = best_trial(searched(values, objectives=scaled).search)
    assert best is not None
    assert best.number == 1


def test_the_best_is_one_of_the_largest_budget() -> None:
    driver = SimulatedDriver(new_search(algorithm="asha", max_trials=3, max_epochs=3))
    driver.look()
    while not driver.end:
        job = next(iter(driver.live))
        driver.look(Known((driver.finish(job, values={"val_loss": float(job[1] + job[0])}),)))
    best = best_trial(driver.search)
    assert best is not None
    assert best.results[-1].epochs == 3
    assert best.results[-1].values["val_loss"] > 1
