"""Successive halving against a plain model: which trial goes on, from which rung."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.simulated_search import SimulatedDriver, epochs_trained, new_search
from tao_automl.decisions import Known, Outcome, PromoteTrial, StartTrial
from tao_automl.rungs.halving import levels, shares
from tao_automl.settings import read_settings
from tao_automl.state import best_trial


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({}, [1, 3, 9, 27]),
        ({"max_epochs": 10}, [1, 3, 10]),
        ({"max_epochs": 100, "reduction_factor": 4}, [2, 6, 25, 100]),
        ({"max_epochs": 27, "epoch_multiplier": 3}, [3, 9, 27]),
        ({"max_epochs": 1}, [1]),
        ({"max_epochs": 2}, [1, 2]),
    ],
)
def test_the_rungs_divide_the_epochs_by_the_factor(
    given_: dict[str, int], expected: list[int]
) -> None:
    assert levels(read_settings(given_)) == expected


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_only_the_best_of_a_rung_go_on_and_each_at_most_once(data: st.DataObject) -> None:
    """The plain model keeps its own table of results, and checks each promotion against it."""
    brackets = data.draw(st.booleans())
    factor = data.draw(st.integers(2, 4))
    driver = SimulatedDriver(
        new_search(
            algorithm="hyperband" if brackets else "asha",
            max_trials=data.draw(st.integers(1, 16)),
            max_concurrent=data.draw(st.integers(1, 5)),
            reduction_factor=factor,
            max_epochs=data.draw(st.sampled_from([4, 9, 27])),
        )
    )
    results: dict[tuple[int, int], dict[int, float]] = {}  # (bracket, rung) -> trial -> loss
    bracket_of: dict[int, int] = {}
    promoted: set[tuple[int, int]] = set()
    gone: set[int] = set()  # failed, or without their checkpoint

    def check(decision: object) -> None:
        if isinstance(decision, StartTrial):
            bracket_of[decision.trial] = driver.search.trial(decision.trial).bracket
            assert decision.rung == bracket_of[decision.trial]
            return
        assert isinstance(decision, PromoteTrial)
        number, below = decision.trial, decision.rung - 1
        rung = results[bracket_of[number], below]
        assert number in rung
        assert number not in gone
        assert (number, below) not in promoted
        table = {one: loss for one, loss in rung.items() if one not in gone}
        better = sum((loss, one) < (rung[number], number) for one, loss in table.items())
        if better >= len(table) // factor:  # the last hope of a rung that gets no more results
            assert better == 0
            assert not any((one, below) in promoted for one in table)
            assert len(driver.search.trials) == driver.search.settings.most_trials
        promoted.add((number, below))

    for decision in driver.look():
        check(decision)
    while not driver.end:
        job = data.draw(st.sampled_from(sorted(driver.live)))
        kind = data.draw(st.sampled_from(["complete"] * 4 + ["failed", "unavailable"]))
        loss = data.draw(st.floats(-5, 5))
        if kind == "complete":
            report = driver.finish(job, values={"val_loss": loss})
            results.setdefault((bracket_of[job[0]], job[1]), {})[job[0]] = loss
        else:
            report = driver.finish(job, outcome=Outcome(kind), values=None)
            gone.add(job[0])
        for decision in driver.look(Known((report,))):
            if driver.end is None:
                check(decision)


@pytest.mark.slow
def test_a_search_with_rungs_ends_with_a_full_training() -> None:
    for most in (1, 2, 5, 20):
        for algorithm in ("asha", "hyperband", "bohb", "dehb"):
            driver = SimulatedDriver(new_search(algorithm=algorithm, max_trials=most))
            best = best_trial(driver.run())
            assert best is not None
            assert best.results[-1].epochs == 27


def test_the_brackets_share_the_trials_as_hyperband_does() -> None:
    search = SimulatedDriver(new_search(algorithm="hyperband", max_trials=49)).run()
    sizes = Counter(trial.bracket for trial in search.trials)
    assert sizes == {0: 27, 1: 12, 2: 6, 3: 4}
    assert sum(shares(range(4), 3, 3).values()) == pytest.approx(1)


def test_the_spec_as_it_stands_is_trained_in_full() -> None:
    search = SimulatedDriver(new_search(algorithm="hyperband", max_trials=6)).run()
    assert search.trials[0].results[0].epochs == 27


def test_no_epoch_is_trained_twice() -> None:
    driver = SimulatedDriver(new_search(algorithm="asha", max_trials=27))
    driver.run()
    assert epochs_trained(driver) == sum(
        trial.results[-1].epochs or 0 for trial in driver.search.trials
    )
    for decision in driver.started:
        if isinstance(decision, PromoteTrial):
            below = driver.search.trial(decision.trial).result(decision.rung - 1)
            assert below is not None
            assert decision.from_epochs == below.epochs


def test_failed_trials_get_no_further_jobs() -> None:
    """A fifth of all jobs fail; nothing of a failed trial is started again."""
    for algorithm in ("hyperband", "dehb", "pbt"):
        chance = random.Random(6)
        driver = SimulatedDriver(new_search(algorithm=algorithm, max_trials=40, max_concurrent=4))
        driver.look()
        failed: set[int] = set()
        while not driver.end:
            job = next(iter(driver.live))
            if chance.random() < 0.2:
                failed.add(job[0])
                report = driver.finish(job, outcome=Outcome.FAILED, values={"val_loss": 0.0})
            else:
                report = driver.finish(job)
            before = len(driver.started)
            driver.look(Known((report,)))
            for decision in driver.started[before:]:
                assert decision.trial not in failed
                assert getattr(decision, "parent", None) not in failed


def test_enough_full_trainings_end_an_asha_search() -> None:
    driver = SimulatedDriver(
        new_search(algorithm="asha", max_trials=200, min_top_configs=2, max_epochs=9)
    )
    search = driver.run()
    assert len(search.trials) < 60
    assert sum(trial.result(2) is not None for trial in search.trials) >= 2


def test_more_results_than_one_worker_sees_come_without_waiting() -> None:
    """Four workers are never idle before the last few jobs."""
    driver = SimulatedDriver(new_search(algorithm="hyperband", max_trials=40, max_concurrent=4))
    driver.look()
    while driver.search.has_room:
        assert len(driver.live) == 4
        driver.look(Known((driver.finish(next(iter(driver.live))),)))
