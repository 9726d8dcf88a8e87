"""Population based training: members train a generation at a time; then the worst quarter goes on
as perturbed copies of the best quarter.

A generation begins when the one before has ended for all its members, so the order of ends is of no
importance. A copy is a trial of its own, with its parent; a member that fails is gone, and is
never copied. When all configurations are used up, members train on as they are.
"""

from __future__ import annotations

from tao_automl.rungs.step import New, Pause, Promote, Step
from tao_automl.settings import SearchSettings
from tao_automl.state import Search
from tao_automl.trial import Trial, TrialStatus

PART = 4  # of the members, one in so many is replaced


def levels(settings: SearchSettings) -> list[int]:
    """The epochs at the end of each generation: 9, 18, 27 with the defaults."""
    interval = min(settings.eval_interval, -(-settings.max_epochs // 3))
    ends = list(range(interval, settings.max_epochs + 1, interval))[: settings.max_generations]
    return ends or [settings.max_epochs]


def size_of(settings: SearchSettings) -> int:
    """The number of members: half of the configurations at most, as copies count as well."""
    return min(settings.population_size, max(2, settings.most_trials // 2), settings.most_trials)


def next_step(search: Search) -> Step:
    found = levels(search.settings)
    if lacks_members(search):
        return New(0, found[0])
    members = live(search)
    if not members:
        return Pause.DONE
    generation = min(trial.rung for trial in members)
    waiting = [trial for trial in members if trial.rung == generation]
    if any(trial.is_running for trial in waiting):
        return Pause.WAIT
    if generation + 1 == len(found):
        return Pause.WAIT if search.running else Pause.DONE
    return next_generation(search, waiting[0], generation, found)


def lacks_members(search: Search) -> bool:
    """True while the first generation has too few: those that failed in it are replaced."""
    if not search.has_room or any(trial.rung or trial.held for trial in search.trials):
        return False
    return len(live(search)) < size_of(search.settings)


def live(search: Search) -> list[Trial]:
    """The members that train or may train on."""
    return [
        trial
        for trial in search.trials
        if trial.is_running or (trial.status is TrialStatus.COMPLETE and not trial.held)
    ]


def next_generation(search: Search, trial: Trial, generation: int, found: list[int]) -> Step:
    """How a member goes on: as it is, or as a copy of a better one."""
    rung = generation + 1
    parent = parent_for(search, trial, generation)
    if parent is None or not search.has_room:
        return Promote(trial.number, rung, found[rung])
    return New(rung, found[rung], parent=parent.number, replaces=trial.number)


def parent_for(search: Search, trial: Trial, generation: int) -> Trial | None:
    """The trial whose copy takes the place of this one; None where this one is good enough.

    The order of a generation is that of all that have ended it, whatever became of them since.
    """
    ended = [(one, result) for one in search.trials if (result := one.result(generation))]
    order = [one for one, _ in sorted(ended, key=lambda pair: search.merit(*pair))]
    part = len(order) // PART
    place = order.index(trial)
    if place < len(order) - part:
        return None
    best = [one for one in order[:part] if one.is_usable and not one.held]
    if not best:
        return None
    return best[(len(order) - 1 - place) % len(best)]
