"""Evidence: what models learn from, as points of the unit cube.

A failed or stopped trial is a place without a number. One that runs is a place whose number is not
known yet. A trial whose values are not all known, as the spec may have it, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tao_automl.space.space import Space
from tao_automl.state import Search, losses_of
from tao_automl.trial import Params, RungResult, Trial, TrialStatus, has_all_metrics, merit_of

Point = tuple[float, ...]
MOST_TOLD = 150  # trials that a model learns from


@dataclass(frozen=True)
class Observed:
    """A configuration with its numbers, all of them better when smaller."""

    point: Point
    params: Params
    losses: tuple[float, ...]  # of each goal
    loss: float  # of all goals together, by weight and scale
    violation: float  # of the limits


@dataclass(frozen=True)
class Evidence:
    """Everything that is known of one rung."""

    observed: tuple[Observed, ...]
    failed: tuple[Point, ...]
    pending: tuple[tuple[Point, Params], ...]


def evidence_of(search: Search, rung: int = 0, most: int | None = MOST_TOLD) -> Evidence:
    """What is known of a rung, the best and the newest of it where that is more than `most`; None:
    everything. Earlier searches count like trials before the first, beside full trainings.
    """
    pairs = most_telling(search, list(search.results_at(rung)), most)
    observed = [observed_trial(search, *pair) for pair in pairs]
    full = (None, search.settings.max_epochs)
    is_full = all(result.epochs in full for _, result in pairs)
    prior = observed_prior(search) if is_full else ()
    over = [
        trial
        for trial in search.trials
        if trial.status in (TrialStatus.FAILED, TrialStatus.STOPPED)
    ]
    failed = [encoded(search.space, trial.params) for trial in over[-(most or len(over)) :]]
    pending = [
        (point, trial.params)
        for trial in search.running
        if not trial.result(rung) and (point := encoded(search.space, trial.params))
    ]
    return Evidence(
        tuple(one for one in [*prior, *observed] if one),
        tuple(point for point in failed if point),
        tuple(pending),
    )


def most_telling(
    search: Search, pairs: list[tuple[Trial, RungResult]], most: int | None
) -> list[tuple[Trial, RungResult]]:
    """The best and the newest where there are very many, in the order of their trials."""
    if most is None or len(pairs) <= most:
        return pairs
    old, new = pairs[: -most // 2], pairs[-most // 2 :]
    best = sorted(old, key=lambda pair: search.merit(*pair))[: most - len(new)]
    return [*sorted(best, key=lambda pair: pair[0].number), *new]


def observed_trial(search: Search, trial: Trial, result: RungResult) -> Observed | None:
    point = encoded(search.space, trial.params)
    if point is None:
        return None
    merit = search.merit(trial, result)
    losses = losses_of(search, result)
    return Observed(point, trial.params, losses, merit.loss, merit.violation)


def observed_prior(search: Search) -> Iterator[Observed | None]:
    for prior in search.prior:
        objectives = search.settings.objectives
        point = encoded(search.space, prior.params)
        if point and has_all_metrics(objectives, prior.values):
            merit = merit_of(objectives, prior.values)
            losses = losses_of(search, RungResult(0, None, prior.values))
            yield Observed(point, prior.params, losses, merit.loss, merit.violation)


def encoded(space: Space, params: Params) -> Point | None:
    """The point of a configuration, None where it has none."""
    point = space.encode(params)
    return None if point is None else tuple(point)


def telling_rung(search: Search, rungs: Sequence[int], enough: int) -> int:
    """The highest rung that has enough results for a model; the lowest where none has."""
    for rung in reversed(rungs):
        if sum(1 for _ in search.results_at(rung)) >= enough:
            return rung
    return rungs[0]
