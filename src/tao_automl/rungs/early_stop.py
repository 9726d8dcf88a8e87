"""Early stops: when a trial that runs has no hope. Pure.

`stop_poor` stops what is worse than most were at the same epoch; hyperband_es stops what cannot
reach the worst of those that would go on from its rung, even if it improves as fast as lately.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import median

from tao_automl.state import Search
from tao_automl.trial import Curve, RungResult, Trial

FEWEST = 5  # other trials, before anybody is called worse than most
RECENT = 3  # epochs whose pace a curve is thought to keep


def reason_to_stop(search: Search, trial: Trial, curve: Curve) -> str:
    """Why it has no hope, in words; "" where it may go on."""
    if search.settings.algorithm == "hyperband_es":
        return cannot_reach(search, trial, curve)
    if search.settings.stop_poor:
        return is_poor(search, trial, curve)
    return ""


def is_poor(search: Search, trial: Trial, curve: Curve) -> str:
    losses = losses_of(search, curve)
    if len(losses) < search.settings.min_early_stop_epochs:
        return ""
    epoch = losses[-1][0]
    others = [
        best_until(search, result, epoch)
        for other in search.trials
        if other.is_usable and other.number != trial.number
        for result in other.results[-1:]
        if result.curve and result.curve[-1][0] >= epoch
    ]
    if len(others) < FEWEST:
        return ""
    if min(loss for _, loss in losses) <= median(others):
        return ""
    return f"at epoch {epoch} it was worse than most trials were by then"


def best_until(search: Search, result: RungResult, epoch: int) -> float:
    return min(loss for at, loss in losses_of(search, result.curve) if at <= epoch or at == 1)


def losses_of(search: Search, curve: Curve) -> list[tuple[int, float]]:
    """The curve of the first goal, smaller being better."""
    goal = search.settings.goals[0]
    return [(epoch, goal.loss(value)) for epoch, value in sorted(curve)]


def cannot_reach(search: Search, trial: Trial, curve: Curve) -> str:
    """Compares the best it can reach by the end of its rung with what goes on from there now."""
    settings = search.settings
    done = trial.results[-1].epochs or 0 if trial.results else 0
    losses = [point for point in losses_of(search, curve) if point[0] > done]
    if trial.epochs is None or len(losses) < settings.min_early_stop_epochs:
        return ""
    needed = needed_loss(search, trial)
    if needed is None:
        return ""
    reachable = optimistic(losses, trial.epochs)
    if reachable <= needed + settings.early_stop_threshold * abs(needed):
        return ""
    return (
        f"at epoch {losses[-1][0]} of {trial.epochs} it could no longer reach what goes on from "
        f"this rung"
    )


def needed_loss(search: Search, trial: Trial) -> float | None:
    """The loss of the last one that would go on from the trial's rung; None with too few there."""
    ranked = [
        loss_at(search, result)
        for other, result in search.results_at(trial.rung)
        if other.bracket == trial.bracket
    ]
    places = len(ranked) // search.settings.reduction_factor
    if not places:
        return None
    return sorted(ranked)[places - 1]


def loss_at(search: Search, result: RungResult) -> float:
    goal = search.settings.goals[0]
    return goal.loss(result.values[goal.metric])


def optimistic(losses: Sequence[tuple[int, float]], end: int) -> float:
    """The best loss at `end` if it goes on as fast as in its best recent epoch. Curves flatten, so
    hardly any does better.
    """
    recent = losses[-RECENT - 1 :]
    paces = [
        (before[1] - after[1]) / max(after[0] - before[0], 1)
        for before, after in itertools.pairwise(recent)
    ]
    best = min(loss for _, loss in losses)
    last_epoch = losses[-1][0]
    return best - max([0.0, *paces]) * max(end - last_epoch, 0)
