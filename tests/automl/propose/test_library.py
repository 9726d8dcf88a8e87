"""Optuna's samplers and CMA-ES, made anew for each proposal."""

from __future__ import annotations

import math
import warnings
from statistics import median
from typing import Any

import pytest

from support.simulated_search import SimulatedDriver, loss_of, new_search
from tao_automl.decisions import Known, Outcome
from tao_automl.propose.evidence import MOST_TOLD, evidence_of, telling_rung
from tao_automl.space.search_block import read_parameters
from tao_automl.state import best_trial


def regret(algorithm: str, seed: int, trials: int = 30) -> float:
    space = read_parameters({f"x{place}": {"min": -5.0, "max": 5.0} for place in range(3)})
    driver = SimulatedDriver(
        new_search(seed, space, algorithm=algorithm, max_trials=trials, first_as_is=False)
    )
    search = driver.run(lambda job: sum((value - 1) ** 2 for value in job.params.values()))
    best = best_trial(search)
    assert best is not None
    return best.results[-1].values["val_loss"]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["tpe", "cmaes", "nsga2", "de"])
def test_what_learns_is_better_than_chance(algorithm: str) -> None:
    learnt, chance = ([regret(name, seed) for seed in range(7)] for name in (algorithm, "random"))
    assert median(learnt) < median(chance) * 0.8


def test_bohb_differs_from_hyperband_and_learns_from_the_highest_rung_with_enough() -> None:
    searches = {
        name: SimulatedDriver(new_search(3, algorithm=name, max_trials=30)).run()
        for name in ("hyperband", "hyperband_es", "bohb", "dehb")
    }
    proposals = {name: [one.params for one in search.trials] for name, search in searches.items()}
    assert proposals["bohb"] != proposals["hyperband"]
    assert proposals["dehb"] != proposals["hyperband"]
    search = searches["bohb"]
    rung = telling_rung(search, range(4), 5)
    assert rung > 0
    epochs = {0: 1, 1: 3, 2: 9, 3: 27}[rung]
    for one in evidence_of(search, rung).observed:
        assert one.loss == pytest.approx(loss_of(one.params, epochs))


def test_a_failed_trial_is_a_place_without_a_number() -> None:
    driver = SimulatedDriver(new_search(algorithm="tpe", max_trials=9, max_concurrent=2))
    driver.look()
    driver.look(Known((driver.finish((1, 0), outcome=Outcome.FAILED, values={"val_loss": 0.0}),)))
    driver.look(Known((driver.finish((2, 0), values={"val_loss": math.nan}),)))
    driver.look(Known((driver.finish((3, 0)),)))
    found = evidence_of(driver.search)
    assert len(found.failed) == 2
    assert [one.loss for one in found.observed] == [loss_of(driver.search.trial(3).params)]
    assert [params for _, params in found.pending] == [
        trial.params for trial in driver.search.running
    ]


def test_no_warning_reaches_the_user() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for algorithm in ("tpe", "nsga2", "bohb"):
            SimulatedDriver(new_search(algorithm=algorithm, max_trials=12)).run()


def test_of_very_many_trials_the_best_and_the_newest_are_told() -> None:
    search = SimulatedDriver(new_search(algorithm="random", max_trials=300, first_as_is=False)).run(
        lambda job: float(job.trial % 97)
    )
    told = evidence_of(search)
    assert len(told.observed) == MOST_TOLD
    assert told.observed[-1].params == search.trials[-1].params
    assert len(evidence_of(search, most=None).observed) == 300
    assert sum(one.loss == 0 for one in told.observed) == 3


@pytest.mark.parametrize("algorithm", ["motpe", "nsga2"])
def test_several_goals_and_a_limit_are_searched(algorithm: str) -> None:
    objectives: list[Any] = ["accuracy", "latency", {"metric": "memory", "at_most": 5}]
    driver = SimulatedDriver(
        new_search(2, algorithm=algorithm, objectives=objectives, max_trials=25)
    )
    driver.look()
    while not driver.end:
        job, decision = next(iter(driver.live.items()))
        loss, layers = loss_of(decision.params), decision.params.get("layers", 2)
        values = {"accuracy": -loss, "latency": layers * 1.0, "memory": layers * 1.5}
        driver.look(Known((driver.finish(job, values=values),)))
    best = best_trial(driver.search)
    assert best is not None
    assert best.results[-1].values["memory"] <= 5
