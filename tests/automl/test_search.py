"""advance: what a search does next, whatever its driver says and whenever it is killed."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.simulated_search import SimulatedDriver, loss_of, new_search
from tao_automl.decisions import (
    EndStatus,
    Known,
    Outcome,
    PromoteTrial,
    StartTrial,
    StopTrial,
    TrialProgress,
    TrialReport,
)
from tao_automl.search import advance, create_search, extend, standing_decisions
from tao_automl.settings import read_settings
from tao_automl.space.search_block import read_parameters
from tao_automl.state import best_trial, counts, search_from_json
from tao_automl.trial import Prior, TrialStatus

ALGORITHMS = [
    "random", "grid", "qmc", "bayesian", "bfbo", "tpe", "motpe", "nsga2", "cmaes", "de",
    "asha", "hyperband", "hyperband_es", "bohb", "dehb", "pbt",
]  # fmt: skip
CHEAP = ["random", "asha", "hyperband", "dehb", "pbt"]
ENDS = st.sampled_from(["complete"] * 5 + ["failed", "nan", "none", "unavailable", "stopped"])


def end_of(driver: SimulatedDriver, job: tuple[int, int], end: str) -> TrialReport:
    if end == "complete":
        return driver.finish(job)
    if end == "nan":
        return driver.finish(job, values={"val_loss": math.nan})
    if end == "none":
        return driver.finish(job, values={}, reported=("loss",))
    return driver.finish(job, outcome=Outcome(end), values=None, reason=f"it was {end}")


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_trial_is_lost_doubled_or_wrongly_promoted_under_any_order_of_ends(
    data: st.DataObject,
) -> None:
    algorithm = data.draw(st.sampled_from(CHEAP))
    workers, most = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 14))
    factor = data.draw(st.integers(2, 4))
    driver = SimulatedDriver(
        new_search(
            data.draw(st.integers(0, 9)),
            algorithm=algorithm,
            max_trials=most,
            max_concurrent=workers,
            reduction_factor=factor,
            max_epochs=data.draw(st.sampled_from([1, 2, 9, 27])),
        )
    )
    ended: dict[tuple[int, int], TrialReport] = {}
    driver.look()
    while not driver.end:
        assert driver.live, "it waits for nothing"
        assert len(driver.live) <= workers
        job = data.draw(st.sampled_from(sorted(driver.live)))
        report = end_of(driver, job, data.draw(ENDS))
        ended[job] = report
        before = len(driver.started)
        again = data.draw(st.booleans())
        if data.draw(st.booleans()):
            driver.restart()
        driver.look(Known((report, report) if again else (report,)))
        for decision in driver.started[before:]:
            check_decision(decision, ended)
    search = driver.search
    assert not search.running
    assert len(search.trials) <= most
    assert {decision.trial for decision in driver.started} == {one.number for one in search.trials}
    assert search.jobs == len(driver.started)
    check_best(search, ended)
    assert search_from_json(json.loads(json.dumps(search.to_json()))) == search


def check_decision(
    decision: StartTrial | PromoteTrial, ended: dict[tuple[int, int], TrialReport]
) -> None:
    """What is promoted or copied has ended the rung before with a finite number."""
    if isinstance(decision, PromoteTrial):
        source = (decision.trial, decision.rung - 1)
    elif decision.parent is not None:
        source = (decision.parent, decision.rung - 1)
    else:
        return
    report = ended[source]
    assert report.outcome is Outcome.COMPLETE
    assert report.values
    assert math.isfinite(report.values["val_loss"])


def check_best(search: Any, ended: dict[tuple[int, int], TrialReport]) -> None:
    """The plain rule: of the trials that did not fail, the longest trained, then the best."""
    good = [
        trial for trial in search.trials if trial.status is TrialStatus.COMPLETE and trial.results
    ]
    best = best_trial(search)
    if not good:
        assert best is None
        return
    assert best is not None
    plain = min(
        good,
        key=lambda trial: (
            -(trial.results[-1].epochs or 0),
            trial.results[-1].values["val_loss"],
            trial.number,
        ),
    )
    assert best.number == plain.number
    report = ended[best.number, best.results[-1].rung]
    assert report.values == best.results[-1].values


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_driver_that_is_killed_before_each_commit_decides_the_same(algorithm: str) -> None:
    """Each answer is thrown away once and asked for again, by what another process would read."""
    settings = {"algorithm": algorithm, "max_trials": 14, "max_concurrent": 3, "max_epochs": 9}
    smooth = SimulatedDriver(new_search(4, **settings)).run()
    driver = SimulatedDriver(new_search(4, **settings))
    known = Known()
    while True:
        lost = advance(driver.search, known)
        driver.restart()
        assert advance(driver.search, known) == lost
        driver.look(known)
        if driver.end:
            break
        known = Known((driver.finish(next(iter(driver.live))),))
    assert driver.search == smooth


@pytest.mark.parametrize("algorithm", ["hyperband", "dehb", "pbt", "asha", "bayesian"])
def test_what_a_killed_driver_had_running_is_found_again(algorithm: str) -> None:
    """It repeats exactly the jobs that were decided on and have not ended."""
    driver = SimulatedDriver(
        new_search(2, algorithm=algorithm, max_trials=12, max_concurrent=4, max_epochs=9)
    )
    driver.look()
    while not driver.end:
        driver.restart()
        jobs = [one for one in standing_decisions(driver.search) if not isinstance(one, StopTrial)]
        assert jobs == sorted(driver.live.values(), key=lambda one: one.trial)
        job = sorted(driver.live)[-1]
        driver.look(Known((driver.finish(job),)))
    assert driver.end.status is EndStatus.COMPLETE


PROGRAM = """
import sys
sys.path[:0] = {paths!r}
import json
from support.simulated_search import SimulatedDriver, new_search
for algorithm in {algorithms!r}:
    search = SimulatedDriver(new_search(11, algorithm=algorithm, max_trials=12, max_epochs=9)).run()
    print(json.dumps([search.to_json()["trials"], search.draws]))
"""


@pytest.mark.slow
def test_the_same_seed_gives_the_same_search_in_another_process() -> None:
    program = PROGRAM.format(paths=["tests", "src"], algorithms=ALGORITHMS)
    answers = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "4242")
    ]
    assert answers[0] == answers[1]
    other = SimulatedDriver(new_search(12, algorithm="random", max_trials=12)).run()
    assert json.dumps([other.to_json()["trials"], other.draws]) not in answers[0]


def test_the_first_trial_is_the_spec_as_it_stands_then_what_the_user_wants_tried() -> None:
    start = [{"lr": 0.01, "optimizer": "adam"}]
    driver = SimulatedDriver(new_search(algorithm="random", max_trials=3, start=start))
    search = driver.run()
    assert [trial.proposed_by for trial in search.trials] == ["spec", "start", "random"]
    assert search.trials[0].params == {"lr": 0.001, "layers": 2, "optimizer": "adam"}
    assert search.trials[1].params == start[0]


def test_a_configuration_is_not_tried_twice() -> None:
    for algorithm in ("random", "bayesian", "tpe", "de", "grid"):
        space = read_parameters({"a": [1, 2, 3], "b": {"min": 1, "max": 3}})
        driver = SimulatedDriver(
            new_search(3, space, algorithm=algorithm, max_trials=30, first_as_is=False)
        )
        search = driver.run(lambda decision: decision.params["a"] + decision.params["b"] / 10)
        tried = {json.dumps(dict(trial.params), sort_keys=True) for trial in search.trials}
        assert len(tried) == len(search.trials) == 9
        assert "9 configurations" in search.ended.reason  # type: ignore[union-attr]


def test_a_failed_trial_is_never_the_best_and_never_a_number() -> None:
    driver = SimulatedDriver(new_search(algorithm="random", max_trials=3))
    driver.look()
    driver.look(Known((driver.finish((1, 0), values={"val_loss": 0.5}),)))
    failed = driver.finish(
        (2, 0), outcome=Outcome.FAILED, values={"val_loss": 0.0}, reason="killed"
    )
    driver.look(Known((failed,)))
    driver.look(Known((driver.finish((3, 0), values={"val_loss": -math.inf}),)))
    best = best_trial(driver.search)
    assert best is not None
    assert best.number == 1
    assert driver.search.trials[1].results == ()
    assert driver.search.trials[2].reason == "val_loss is -inf"
    assert counts(driver.search) == {
        "total": 3, "running": 0, "complete": 1, "failed": 2, "stopped": 0,
    }  # fmt: skip


def test_a_promotion_without_its_checkpoint_leaves_the_success_that_earned_it() -> None:
    driver = SimulatedDriver(
        new_search(
            algorithm="asha", max_trials=4, max_concurrent=4, reduction_factor=2, max_epochs=4
        )
    )
    driver.look()
    driver.look(Known(tuple(driver.finish(job) for job in list(driver.live))))
    first, second = (one for one in driver.started if isinstance(one, PromoteTrial))
    missing = driver.finish(
        (first.trial, 1), outcome=Outcome.UNAVAILABLE, values=None, reason="epoch 1 is not there"
    )
    driver.look(Known((missing,)))
    trial = driver.search.trial(first.trial)
    assert trial.status is TrialStatus.COMPLETE
    assert trial.results[0].values["val_loss"] == loss_of(trial.params, 1)
    assert trial.note == "epoch 1 is not there"
    promoted = [one.trial for one in driver.started if isinstance(one, PromoteTrial)]
    assert promoted.count(first.trial) == 1
    assert second.trial in promoted


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_search_whose_trials_all_fail_ends_and_says_why(algorithm: str) -> None:
    driver = SimulatedDriver(
        new_search(algorithm=algorithm, max_trials=9, max_concurrent=2, max_epochs=9)
    )
    driver.look()
    while not driver.end:
        job = next(iter(driver.live))
        report = driver.finish(job, outcome=Outcome.FAILED, values=None, reason=f"crash {job[0]}")
        driver.look(Known((report,)))
    assert driver.end.status is EndStatus.ERROR
    assert "no trial succeeded" in driver.end.reason
    assert "crash" in driver.end.reason


def test_three_first_trials_that_fail_alike_end_the_search() -> None:
    driver = SimulatedDriver(new_search(algorithm="random", max_concurrent=2))
    driver.look()
    while not driver.end:
        report = driver.finish(
            next(iter(driver.live)),
            outcome=Outcome.FAILED, values=None, rule="import_error", reason="no module named x",
        )  # fmt: skip
        driver.look(Known((report,)))
    assert driver.end.status is EndStatus.ERROR
    assert "no module named x" in driver.end.reason
    assert len(driver.search.trials) == 4  # the fourth had begun when the third failed


def test_a_search_that_is_opened_again_forgives_what_failed_before() -> None:
    driver = SimulatedDriver(new_search(algorithm="random"))
    driver.look()
    while not driver.end:
        job = next(iter(driver.live))
        driver.look(Known((driver.finish(job, values={}, reported=("loss",)),)))
    driver.search, driver.end = extend(driver.search), None
    driver.restart()
    search = driver.run()
    assert counts(search)["complete"] == 17


def test_an_earlier_search_is_where_a_model_starts() -> None:
    prior = [Prior({"x": place / 10}, {"val_loss": abs(place / 10 - 0.3)}) for place in range(11)]
    space = read_parameters({"x": {"min": 0.0, "max": 1.0}})
    chosen = read_settings({"metric": "val_loss", "first_as_is": False, "max_trials": 3})
    search = SimulatedDriver(create_search(chosen, space, 1, prior)).run(
        lambda job: abs(job.params["x"] - 0.3)
    )
    assert all(abs(trial.params["x"] - 0.3) < 0.1 for trial in search.trials)


def test_three_trials_in_a_row_without_the_metric_end_the_search_with_what_was_seen() -> None:
    driver = SimulatedDriver(new_search(algorithm="random"))
    driver.look()
    driver.look(Known((driver.finish((1, 0)),)))
    while not driver.end:
        job = next(iter(driver.live))
        driver.look(Known((driver.finish(job, values={}, reported=("loss", "accuracy")),)))
    assert driver.end.status is EndStatus.ERROR
    assert "val_loss was never reported; reported were: loss, accuracy" in driver.end.reason
    assert len(driver.search.trials) == 4


@pytest.mark.parametrize(
    ("limits", "known", "words"),
    [
        ({"max_gpu_hours": 2}, {"gpu_seconds": 7200.0}, "2 GPU hours"),
        ({"max_wall_time": "1h"}, {"wall_seconds": 3600.0}, "3600 s"),
    ],
)
def test_at_a_limit_nothing_new_starts_and_what_runs_ends(
    limits: dict[str, Any], known: dict[str, float], words: str
) -> None:
    driver = SimulatedDriver(new_search(algorithm="random", max_concurrent=2, **limits))
    driver.look()
    report = driver.finish((1, 0))
    assert not [
        one for one in driver.look(Known((report,), **known)) if isinstance(one, StartTrial)
    ]
    assert driver.end is None
    assert bool(driver.told_to_stop) is ("max_wall_time" in limits)
    driver.look(Known((driver.finish((2, 0)),)))
    assert driver.end
    assert driver.end.status is EndStatus.COMPLETE
    assert words in driver.end.reason


def test_a_limit_of_jobs_counts_promotions_and_failures() -> None:
    driver = SimulatedDriver(
        new_search(algorithm="asha", max_jobs=7, reduction_factor=2, max_epochs=4)
    )
    search = driver.run()
    assert len(driver.started) == search.jobs == 7
    assert "7 jobs" in search.ended.reason  # type: ignore[union-attr]
    more = extend(search, replace(search.settings, max_jobs=None))
    assert not advance(more).search.is_over


def test_a_search_that_was_stopped_goes_on_with_what_ran() -> None:
    driver = SimulatedDriver(new_search(algorithm="random", max_concurrent=2, max_trials=4))
    driver.look()
    driver.look(Known(stop="asked for"))
    assert driver.end
    assert driver.end.status is EndStatus.STOPPED
    assert driver.look() == ()
    again = extend(driver.search)
    assert [one.trial for one in standing_decisions(again) if isinstance(one, StartTrial)] == [1, 2]
    driver.search, driver.end = again, None
    driver.look()
    assert len(driver.search.trials) == 2  # both places are taken


def test_more_trials_can_be_asked_for_when_it_is_over() -> None:
    search = SimulatedDriver(new_search(algorithm="hyperband", max_trials=8, max_epochs=9)).run()
    more = extend(search, replace(search.settings, max_trials=12, algorithm="random"))
    assert more.settings.algorithm == "hyperband"
    driver = SimulatedDriver(more)
    assert len(driver.run().trials) == 12


def test_a_report_of_a_trial_that_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError, match="no trial 5"):
        advance(new_search(), Known((TrialReport(5, 0, Outcome.COMPLETE, {"val_loss": 1.0}),)))


def test_a_trial_that_is_worse_than_most_were_is_stopped_once() -> None:
    driver = SimulatedDriver(new_search(algorithm="random", stop_poor=True, max_trials=8))
    driver.look()
    for number in range(1, 6):
        curve = tuple((epoch, number / 10 + 1 / epoch) for epoch in range(1, 11))
        driver.look(Known((driver.finish((number, 0), curve=curve),)))
    early = TrialProgress(6, ((1, 9.0), (2, 9.0)))
    assert driver.look(Known(progress=(early,))) == ()
    poor = TrialProgress(6, ((1, 9.0), (2, 9.0), (3, 9.0)))
    assert [type(one) for one in driver.look(Known(progress=(poor,)))] == [StopTrial]
    assert driver.look(Known(progress=(poor,))) == ()
    driver.look(Known((driver.finish((6, 0), outcome=Outcome.STOPPED, values=None),)))
    trial = driver.search.trial(6)
    assert trial.status is TrialStatus.STOPPED
    assert "worse than most" in trial.reason
    good = TrialProgress(7, ((1, 1.0), (2, 0.5), (3, 0.2)))
    assert driver.look(Known(progress=(good,))) == ()


def test_a_trial_that_ended_by_itself_when_it_was_to_stop_is_complete() -> None:
    driver = SimulatedDriver(new_search(algorithm="random", max_wall_time=10))
    driver.look()
    driver.look(Known(wall_seconds=11.0))
    assert driver.told_to_stop == [1]
    driver.look(Known((driver.finish((1, 0)),), wall_seconds=12.0))
    assert driver.search.trial(1).status is TrialStatus.COMPLETE


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["wer", "val_error", "latency", "loss"])
def test_the_best_is_the_smallest_for_every_metric_that_is_minimized(metric: str) -> None:
    for algorithm in ("bayesian", "hyperband"):
        driver = SimulatedDriver(
            new_search(algorithm=algorithm, metric=metric, max_trials=6, max_epochs=3)
        )
        driver.look()
        while not driver.end:
            job = next(iter(driver.live))
            loss = loss_of(driver.live[job].params, driver.live[job].epochs)
            driver.look(Known((driver.finish(job, values={metric: loss}),)))
        best = best_trial(driver.search)
        assert best is not None
        top = max(trial.results[-1].epochs or 0 for trial in driver.search.trials)
        at_top = [
            one.results[-1] for one in driver.search.trials if (one.results[-1].epochs or 0) == top
        ]
        assert best.results[-1].values[metric] == min(result.values[metric] for result in at_top)
