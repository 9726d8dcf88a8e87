"""Views: a search as it is shown: its trials with their jobs and times, the best, the front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tao_automl.report.importance import importance_of
from tao_automl.space.space import Space
from tao_automl.state import Search, best_trial, front
from tao_automl.trial import Objective, Params, RungResult, Trial, TrialStatus

AS_IT_STOOD = "spec"  # who proposed the first trial


@dataclass(frozen=True)
class TrialView:
    """One trial. `value` is of the search's first goal; a trial that failed has none."""

    number: int
    status: str
    params: Params
    jobs: tuple[str, ...] = ()  # the oldest first
    value: float | None = None
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    epoch: int | None = None  # trained in total when the value was measured
    reason: str = ""
    proposed_by: str = ""
    ended: float | None = None  # seconds after the search began

    @property
    def job(self) -> str:
        """The newest job; "" where there is none."""
        return self.jobs[-1] if self.jobs else ""

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "status": self.status,
            "job": self.job or None,
            "jobs": list(self.jobs),
            "params": dict(self.params),
            "value": self.value,
            "values": dict(self.values),
            "epoch": self.epoch,
            "reason": self.reason,
            "proposed_by": self.proposed_by,
        }


@dataclass(frozen=True)
class SearchView:
    """A search as it is shown. `status` is Running, Complete, Stopped or Error."""

    id: str
    name: str
    status: str
    message: str
    algorithm: str
    objectives: tuple[Objective, ...]
    seed: int
    most_trials: int
    concurrency: int
    space: Space
    trials: tuple[TrialView, ...] = ()
    best: TrialView | None = None
    front: tuple[TrialView, ...] = ()
    importance: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def goal(self) -> Objective:
        """The first objective that has a direction."""
        return self.goals[0]

    @property
    def goals(self) -> tuple[Objective, ...]:
        return tuple(one for one in self.objectives if one.is_goal)

    @property
    def baseline(self) -> TrialView | None:
        """The trial of the spec as it stood, where it has a value."""
        first = self.trials[0] if self.trials else None
        if first and first.proposed_by == AS_IT_STOOD and first.value is not None:
            return first
        return None

    @property
    def counts(self) -> dict[str, int]:
        """Trials in all and in each status; waiting are those that may still be tried."""
        found = {"total": max(self.most_trials, len(self.trials))}
        for status in TrialStatus:
            found[status.value] = sum(one.status == status.value for one in self.trials)
        is_over = self.status != "Running"
        found["waiting"] = 0 if is_over else found["total"] - len(self.trials)
        return found

    def to_json(self) -> dict[str, Any]:
        """What `--json` says of a search. Its driver adds the best one's checkpoint and spec, and
        the budget.
        """
        return {
            "id": self.id,
            "name": self.name,
            "status": self.status,
            "message": self.message,
            "algorithm": self.algorithm,
            "metric": self.goal.metric,
            "direction": self.goal.direction,
            "objectives": [one.to_json() for one in self.objectives],
            "seed": self.seed,
            "counts": self.counts,
            "trials": [trial.to_json() for trial in self.trials],
            "best": best_json(self.best),
            "baseline": best_json(self.baseline),
            "pareto": [trial.number for trial in self.front],
            "importance": dict(self.importance),
        }


def best_json(trial: TrialView | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    return {
        "trial": trial.number,
        "job": trial.job or None,
        "params": dict(trial.params),
        "value": trial.value,
        "values": dict(trial.values),
    }


def view_of(
    search: Search,
    id: str,
    name: str = "",
    jobs: Mapping[int, Sequence[str]] | None = None,
    ended: Mapping[int, float] | None = None,
) -> SearchView:
    """The view of a search. `jobs` are those of each trial, the oldest first; `ended` the seconds
    after which each of them ended.
    """
    settings = search.settings
    found = {
        trial.number: trial_view(search, trial, (jobs or {}).get(trial.number, ()), ended or {})
        for trial in search.trials
    }
    best = best_trial(search)
    return SearchView(
        id=id,
        name=name or id,
        status=search.status_name,
        message=search.closing_reason,
        algorithm=settings.algorithm,
        objectives=settings.objectives,
        seed=search.seed,
        most_trials=settings.most_trials,
        concurrency=settings.concurrency,
        space=search.space,
        trials=tuple(found.values()),
        best=found[best.number] if best else None,
        front=tuple(found[trial.number] for trial in front(search)),
        importance=importance_of(search),
    )


def trial_view(
    search: Search, trial: Trial, jobs: Sequence[str], ended: Mapping[int, float]
) -> TrialView:
    last = newest_result(trial)
    goal = search.settings.goals[0].metric
    return TrialView(
        trial.number,
        trial.status.value,
        trial.params,
        tuple(jobs),
        last.values[goal] if last else None,
        last.values if last else {},
        last.epochs if last else None,
        trial.reason or trial.note,
        trial.proposed_by,
        ended.get(trial.number),
    )


def newest_result(trial: Trial) -> RungResult | None:
    """The newest result that counts: a trial that failed or was stopped has none."""
    return trial.results[-1] if trial.is_usable else None
