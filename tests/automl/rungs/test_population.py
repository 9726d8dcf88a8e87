"""A population: generations, copies of the best, and members that fail."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.simulated_search import SimulatedDriver, new_search
from tao_automl.decisions import Known, Outcome, StartTrial
from tao_automl.rungs.population import levels, size_of
from tao_automl.settings import read_settings
from tao_automl.state import Search
from tao_automl.trial import TrialStatus


def population(seed: int = 1, **settings: object) -> SimulatedDriver:
    return SimulatedDriver(new_search(seed, algorithm="pbt", **settings))


def run_in_order(seed: int, order: random.Random) -> Search:
    driver = population(seed, max_trials=20, max_concurrent=4)
    driver.look()
    while not driver.end:
        job = order.choice(sorted(driver.live))
        driver.look(Known((driver.finish(job),)))
    return driver.search


def test_generations_are_of_equal_length_and_end_with_the_last_epoch() -> None:
    assert levels(read_settings({})) == [9, 18, 27]
    assert levels(read_settings({"max_epochs": 100})) == [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    assert levels(read_settings({"max_epochs": 100, "max_generations": 3})) == [10, 20, 30]
    assert levels(read_settings({"max_epochs": 2})) == [1, 2]
    assert levels(read_settings({"max_epochs": 100, "automl_eval_interval": 30})) == [30, 60, 90]


def test_half_of_the_configurations_are_left_for_copies() -> None:
    assert size_of(read_settings({})) == 10
    assert size_of(read_settings({"max_trials": 8})) == 4
    assert size_of(read_settings({"max_trials": 1})) == 1


def test_the_worst_quarter_goes_on_as_copies_of_the_best_quarter() -> None:
    driver = population(max_trials=20, population_size=8, max_concurrent=8)
    driver.look()
    losses = {number: float(number) for number in range(1, 9)}
    reports = [
        driver.finish((number, 0), values={"val_loss": loss}) for number, loss in losses.items()
    ]
    driver.look(Known(tuple(reports)))
    copies = {
        trial.number: trial.parent for trial in driver.search.trials if trial.parent is not None
    }
    assert copies in ({9: 2, 10: 1}, {9: 1, 10: 2})
    replaced = [trial for trial in driver.search.trials if trial.status is TrialStatus.STOPPED]
    assert [trial.number for trial in replaced] == [7, 8]
    assert "copy of trial" in replaced[0].reason
    for decision in driver.started[8:]:
        if isinstance(decision, StartTrial):
            assert decision.parent_epochs == 9
            assert decision.epochs == 18
            parent = driver.search.trial(decision.parent or 0)
            assert decision.params != parent.params


def test_the_order_of_ends_is_of_no_importance() -> None:
    searches = [run_in_order(5, random.Random(order)) for order in range(4)]
    assert all(search == searches[0] for search in searches)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_member_is_copied_that_failed_and_none_is_lost(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 8))
    driver = population(
        data.draw(st.integers(0, 3)),
        population_size=size,
        max_trials=data.draw(st.integers(1, 20)),
        max_concurrent=data.draw(st.integers(1, 5)),
        max_epochs=data.draw(st.sampled_from([1, 9, 40])),
    )
    failed: set[int] = set()
    driver.look()
    while not driver.end:
        job = data.draw(st.sampled_from(sorted(driver.live)))
        if data.draw(st.integers(0, 3)) == 0:
            failed.add(job[0])
            report = driver.finish(job, outcome=Outcome.FAILED, values=None)
        else:
            report = driver.finish(job, values={"val_loss": data.draw(st.floats(0, 1))})
        before = len(driver.started)
        driver.look(Known((report,)))
        for decision in driver.started[before:]:
            assert decision.trial not in failed
            assert getattr(decision, "parent", None) not in failed
    last = len(levels(driver.search.settings)) - 1
    for trial in driver.search.trials:
        if trial.status is TrialStatus.COMPLETE:
            assert trial.rung == last


def test_members_that_fail_at_once_are_replaced() -> None:
    driver = population(max_trials=12, population_size=4, max_concurrent=4)
    driver.look()
    driver.look(Known((driver.finish((2, 0), outcome=Outcome.FAILED, values=None),)))
    assert sorted(number for number, _ in driver.live) == [1, 3, 4, 5]
