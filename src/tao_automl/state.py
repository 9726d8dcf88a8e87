"""Search: everything that is known of one search, and what follows from it without deciding.

Here: the record, its JSON, and questions about it. Not here: what happens next (search.py). It is
all that has to be kept: with the same Search and the same reports, every process decides the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tao_automl.decisions import EndStatus
from tao_automl.settings import SearchSettings, settings_from_json
from tao_automl.space.space import Space, space_from_json
from tao_automl.trial import Merit, Prior, RungResult, Trial, TrialStatus, merit_of

FORMAT = 1  # of the JSON; raised when an older reader would misread it


@dataclass(frozen=True)
class Closing:
    """Why nothing new starts any more. The search ends so when nothing runs."""

    status: EndStatus
    reason: str

    def to_json(self) -> dict[str, str]:
        return {"status": self.status.value, "reason": self.reason}

    @classmethod
    def from_json(cls, data: Mapping[str, str]) -> Closing:
        return cls(EndStatus(data["status"]), data["reason"])


@dataclass(frozen=True)
class Dialogue:
    """Where the talk with a language model stands, for the next configuration."""

    is_asked: bool = False  # an AskModel was decided and has no answer yet
    mistakes: tuple[str, ...] = ()  # what was wrong with its answers to this question
    notes: str = ""  # what it wants to remember, in its own words

    def to_json(self) -> dict[str, Any]:
        return {"is_asked": self.is_asked, "mistakes": list(self.mistakes), "notes": self.notes}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Dialogue:
        return cls(data["is_asked"], tuple(data["mistakes"]), data["notes"])


@dataclass(frozen=True)
class Search:
    """Everything that is known of a search. Frozen: `advance` gives the next one.

    `settings.algorithm` is a name, never `auto`. Randomness comes from `seed` and `draws` alone.
    """

    settings: SearchSettings
    space: Space
    seed: int
    trials: tuple[Trial, ...] = ()  # trial n is trials[n - 1]
    prior: tuple[Prior, ...] = ()  # of earlier searches
    draws: int = 0  # random streams that have been used
    jobs: int = 0  # that were decided on, promotions included
    forgiven: int = 0  # trials whose failures end no search: it was opened again after them
    dialogue: Dialogue = field(default=Dialogue())
    closing: Closing | None = None
    ended: Closing | None = None

    @property
    def is_over(self) -> bool:
        return self.ended is not None

    @property
    def status_name(self) -> str:
        """Running, Complete, Stopped or Error. Running also while nobody drives it."""
        return self.ended.status.value.capitalize() if self.ended else "Running"

    @property
    def closing_reason(self) -> str:
        return self.closing.reason if self.closing else ""

    @property
    def running(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.is_running)

    @property
    def has_room(self) -> bool:
        """True while another configuration may be tried."""
        return len(self.trials) < self.settings.most_trials

    def trial(self, number: int) -> Trial:
        """Trial `number`. Raises KeyError where there is none."""
        if not 1 <= number <= len(self.trials):
            raise KeyError(f"this search has no trial {number}")
        return self.trials[number - 1]

    def with_trial(self, trial: Trial) -> Search:
        """The same search with this trial in the place of the one of its number, or added."""
        place = trial.number - 1
        trials = (*self.trials[:place], trial, *self.trials[place + 1 :])
        return replace(self, trials=trials)

    def merit(self, trial: Trial, result: RungResult) -> Merit:
        return merit_of(self.settings.objectives, result.values, trial.number)

    def results_at(self, rung: int) -> Iterator[tuple[Trial, RungResult]]:
        """Every usable trial that has a result at a rung, with it."""
        for trial in self.trials:
            result = trial.result(rung)
            if result and trial.is_usable:
                yield trial, result

    def ranked(self, rung: int, keep: Callable[[Trial], bool]) -> list[Trial]:
        """The usable trials with a result at a rung for which `keep` is true, the best first."""
        found = [pair for pair in self.results_at(rung) if keep(pair[0])]
        found.sort(key=lambda pair: self.merit(*pair))
        return [pair[0] for pair in found]

    def head_to_json(self) -> dict[str, Any]:
        """All but the trials, which a store keeps one by one (`Trial.to_json`)."""
        return {
            "format": FORMAT,
            "settings": self.settings.to_json(),
            "space": self.space.to_json(),
            "seed": self.seed,
            "prior": [prior.to_json() for prior in self.prior],
            "draws": self.draws,
            "jobs": self.jobs,
            "forgiven": self.forgiven,
            "dialogue": self.dialogue.to_json(),
            "closing": self.closing.to_json() if self.closing else None,
            "ended": self.ended.to_json() if self.ended else None,
        }

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; `search_from_json` gives an equal search back."""
        return {**self.head_to_json(), "trials": [trial.to_json() for trial in self.trials]}


def search_from_json(data: Mapping[str, Any]) -> Search:
    """The search that `to_json` gave. A store gives `trials` from its rows, in their order."""
    closing, ended = data["closing"], data["ended"]
    return Search(
        settings=settings_from_json(data["settings"]),
        space=space_from_json(data["space"]),
        seed=data["seed"],
        trials=tuple(map(Trial.from_json, data["trials"])),
        prior=tuple(map(Prior.from_json, data["prior"])),
        draws=data["draws"],
        jobs=data["jobs"],
        forgiven=data["forgiven"],
        dialogue=Dialogue.from_json(data["dialogue"]),
        closing=Closing.from_json(closing) if closing else None,
        ended=Closing.from_json(ended) if ended else None,
    )


def best_trial(search: Search) -> Trial | None:
    """The best trial at the largest budget that any has reached; None without a result.

    A failed or stopped trial is never it. What breaks a limit is it only where all do.
    """
    ranked = ranked_trials(search)
    return ranked[0] if ranked else None


def ranked_trials(search: Search) -> list[Trial]:
    """The usable trials: those of higher rungs first, then the better ones."""
    usable = [trial for trial in search.trials if trial.is_usable]
    return sorted(usable, key=lambda trial: _rank(search, trial))


def _rank(search: Search, trial: Trial) -> tuple[int, Merit]:
    last = trial.results[-1]
    budget = last.epochs if last.epochs is not None else last.rung
    return (-budget, search.merit(trial, last))


def front(search: Search) -> list[Trial]:
    """The usable trials of the largest budget that no other of them beats in every goal, by number.

    Trials that break a limit are on it only where all do.
    """
    ranked = ranked_trials(search)
    if not ranked:
        return []
    budget = ranked[0].results[-1].epochs
    full = [trial for trial in ranked if trial.results[-1].epochs == budget]
    within = [trial for trial in full if not search.merit(trial, trial.results[-1]).violation]
    candidates = within or full
    points = {trial.number: losses_of(search, trial.results[-1]) for trial in candidates}
    beaten = {
        number
        for number, point in points.items()
        if any(dominates(other, point) for other in points.values())
    }
    return sorted(
        (trial for trial in candidates if trial.number not in beaten),
        key=lambda trial: trial.number,
    )


def losses_of(search: Search, result: RungResult) -> tuple[float, ...]:
    """The values of all goals, each as a number that is better when smaller."""
    return tuple(goal.loss(result.values[goal.metric]) for goal in search.settings.goals)


def dominates(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    """True where the first is nowhere worse than the second, and somewhere better."""
    return first != second and all(one <= other for one, other in zip(first, second, strict=True))


def counts(search: Search) -> dict[str, int]:
    """How many trials there are: in all, and in each status."""
    found = {"total": len(search.trials)}
    for status in TrialStatus:
        found[status.value] = sum(trial.status is status for trial in search.trials)
    return found
