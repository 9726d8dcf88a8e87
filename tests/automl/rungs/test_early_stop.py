"""Early stops: a curve that cannot reach its rung, and one that still can."""

from __future__ import annotations

from support.simulated_search import SimulatedDriver, new_search
from tao_automl.decisions import Known, Outcome, StopTrial, TrialProgress
from tao_automl.rungs.early_stop import optimistic
from tao_automl.trial import Curve, TrialStatus


def curve(end: float, until: int) -> Curve:
    """It falls from end + 1 towards its end."""
    return tuple((epoch, end + 1 / epoch) for epoch in range(1, until + 1))


def filled(algorithm: str) -> SimulatedDriver:
    """Six full trainings are in, with losses from 1.1 to 1.6; a seventh runs."""
    driver = SimulatedDriver(
        new_search(algorithm=algorithm, max_trials=40, epoch_multiplier=9, max_epochs=9)
    )
    driver.look()
    for number in range(1, 7):
        values = {"val_loss": 1 + number / 10}
        driver.look(Known((driver.finish((number, 0), values=values, curve=curve(1, 9)),)))
    return driver


def test_a_trial_that_cannot_reach_what_goes_on_is_stopped() -> None:
    driver = filled("hyperband_es")
    hopeless = TrialProgress(7, ((1, 9.0), (2, 8.9), (3, 8.8)))
    assert [type(one) for one in driver.look(Known(progress=(hopeless,)))] == [StopTrial]
    driver.look(Known((driver.finish((7, 0), outcome=Outcome.STOPPED, values=None),)))
    trial = driver.search.trial(7)
    assert trial.status is TrialStatus.STOPPED
    assert "could no longer reach" in trial.reason


def test_a_trial_that_improves_fast_enough_goes_on() -> None:
    driver = filled("hyperband_es")
    hopeful = TrialProgress(7, ((1, 9.0), (2, 7.5), (3, 6.0)))
    assert driver.look(Known(progress=(hopeful,))) == ()
    young = TrialProgress(7, ((1, 9.0), (2, 9.0)))
    assert driver.look(Known(progress=(young,))) == ()


def test_hyperband_itself_stops_nobody() -> None:
    driver = filled("hyperband")
    assert driver.look(Known(progress=(TrialProgress(7, curve(50, 8)),))) == ()


def test_the_best_that_can_be_reached_follows_from_the_fastest_recent_epoch() -> None:
    assert optimistic([(1, 5.0), (2, 4.0), (3, 3.5)], 5) == 1.5
    assert optimistic([(1, 5.0), (2, 6.0)], 9) == 5.0
