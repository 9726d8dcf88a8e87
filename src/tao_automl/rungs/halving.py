"""Successive halving: the best of each rung train on, asynchronously and by promotion.

Here: the levels, the rule of promotion, ASHA and the brackets of Hyperband. A rung is the same
number in every bracket; bracket b begins at rung b. A trial is promoted at most once from a rung.
Whenever a rung has n results, its best n / reduction_factor may go on. A rung that gets no more
results sends at least its best one on, so that a search ends with a full training.
"""

from __future__ import annotations

from collections.abc import Iterator

from tao_automl.rungs.step import New, Pause, Promote, Step
from tao_automl.settings import SearchSettings
from tao_automl.state import Search
from tao_automl.trial import Trial


def levels(settings: SearchSettings) -> list[int]:
    """The epochs of each rung, the lowest first: 1, 3, 9, 27 with the defaults."""
    found = [settings.max_epochs]
    exact = settings.max_epochs / settings.reduction_factor
    while round(exact) >= settings.min_epochs and round(exact) < found[-1]:
        found.append(round(exact))
        exact /= settings.reduction_factor
    return found[::-1]


def next_of_asha(search: Search) -> Step:
    """A promotion where one is due, else a new trial at the lowest rung."""
    return next_step(search, [0])


def next_of_hyperband(search: Search) -> Step:
    """The same over several brackets, which share the trials as Hyperband does."""
    return next_step(search, range(len(levels(search.settings))))


def next_step(search: Search, brackets: range | list[int]) -> Step:
    found = levels(search.settings)
    for step in promotions(search, brackets, found):
        return step
    if search.has_room and not has_enough_on_top(search, found):
        bracket = next_bracket(search, brackets, found)
        return New(bracket, found[bracket], bracket)
    for step in closing_promotions(search, brackets, found):
        return step
    return Pause.WAIT if search.running else Pause.DONE


def has_enough_on_top(search: Search, found: list[int]) -> bool:
    """True once `min_top_configs` have been trained in full."""
    enough = search.settings.min_top_configs
    if enough is None:
        return False
    return sum(1 for _ in search.results_at(len(found) - 1)) >= enough


def promotions(search: Search, brackets: range | list[int], found: list[int]) -> Iterator[Promote]:
    """What may go on now, from the highest rung down."""
    for rung in reversed(range(len(found) - 1)):
        for bracket in brackets:
            for trial in promotable(search, bracket, rung):
                yield Promote(trial.number, rung + 1, found[rung + 1])


def promotable(search: Search, bracket: int, rung: int) -> list[Trial]:
    """The trials of a rung that are among its best and have not gone on, the best first."""
    ranked = ranked_in(search, bracket, rung)
    best = ranked[: quota(search, len(ranked))]
    return [trial for trial in best if trial.rung == rung]


def ranked_in(search: Search, bracket: int, rung: int) -> list[Trial]:
    """The trials of a bracket whose result at a rung counts, the best first. One whose checkpoint
    could not be found counts no more: the next one goes on.
    """
    return search.ranked(rung, lambda trial: trial.bracket == bracket and not trial.held)


def quota(search: Search, results: int) -> int:
    return results // search.settings.reduction_factor


def closing_promotions(
    search: Search, brackets: range | list[int], found: list[int]
) -> Iterator[Promote]:
    """The best of a rung that will get no more results and has sent nobody on."""
    for bracket in brackets:
        for rung in range(bracket, len(found) - 1):
            if any(trial.bracket == bracket and trial.rung <= rung for trial in search.running):
                break
            ranked = ranked_in(search, bracket, rung)
            if ranked and not any(trial.rung > rung for trial in ranked):
                yield Promote(ranked[0].number, rung + 1, found[rung + 1])


def next_bracket(search: Search, brackets: range | list[int], found: list[int]) -> int:
    """The bracket that has the fewest trials for its share. The spec as it stands is trained in
    full where a bracket does that.
    """
    if not search.trials and search.settings.first_as_is:
        return brackets[-1]
    wanted = shares(brackets, len(found) - 1, search.settings.reduction_factor)
    total = len(search.trials) + 1
    taken = {
        bracket: sum(trial.bracket == bracket for trial in search.trials) for bracket in brackets
    }
    return max(brackets, key=lambda bracket: (wanted[bracket] * total - taken[bracket], -bracket))


def shares(brackets: range | list[int], top: int, factor: int) -> dict[int, float]:
    """The part of all trials that begins in each bracket: 27 : 12 : 6 : 4 with the defaults."""
    sizes = {
        bracket: (top + 1) / (top - bracket + 1) * factor ** (top - bracket) for bracket in brackets
    }
    return {bracket: size / sum(sizes.values()) for bracket, size in sizes.items()}
