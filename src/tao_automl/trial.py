"""Trials: one configuration each, what is known of it, and the order in which they are better.

Here: Objective, RungResult, Trial. Not here: what happens next (search.py), what a driver reports
and what it is told to do (decisions.py). All of it is frozen and has a JSON form that gives the
same object back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

MINIMIZE, MAXIMIZE = "minimize", "maximize"
Params = Mapping[str, Any]  # key -> a plain value of JSON: bool, int, float, str, None, list
Curve = tuple[tuple[int, float], ...]  # (epoch from 1 on, value of the first objective's metric)


@dataclass(frozen=True)
class Objective:
    """A metric and what is wanted of it: a goal (`direction`), limits, or both.

    `weight` and `scale` count where several goals have to become one number: the sum of
    weight * value / scale. With `at_most` or `at_least` and no direction it is a limit alone.
    """

    metric: str
    direction: str = ""  # MINIMIZE, MAXIMIZE, or "" for a limit alone
    weight: float = 1.0
    scale: float = 1.0
    at_most: float | None = None
    at_least: float | None = None

    @property
    def is_goal(self) -> bool:
        return bool(self.direction)

    def loss(self, value: float) -> float:
        """The value as a number that is better when smaller."""
        if self.direction == MAXIMIZE:
            return -value
        return value

    def violation(self, value: float) -> float:
        """How far the value is beyond the limits; 0.0 within them."""
        above = value - self.at_most if self.at_most is not None else 0.0
        below = self.at_least - value if self.at_least is not None else 0.0
        return max(above, below, 0.0)

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "direction": self.direction,
            "weight": self.weight,
            "scale": self.scale,
            "at_most": self.at_most,
            "at_least": self.at_least,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Objective:
        return cls(**data)


class TrialStatus(str, Enum):
    """Where a trial is. COMPLETE also has every trial that may still be promoted."""

    RUNNING = "running"  # a job of it was decided on and its end is not known
    COMPLETE = "complete"  # its newest rung has ended with a result
    FAILED = "failed"  # its job failed, or ended without a finite metric
    STOPPED = "stopped"  # it was ended early, for a reason that is kept


@dataclass(frozen=True, slots=True)
class RungResult:
    """What a trial had at the end of one rung: finite numbers only."""

    rung: int
    epochs: int | None  # trained in total by then; None where the spec alone says how many
    values: Mapping[str, float]  # metric -> value, of every objective
    curve: Curve = ()  # kept where the settings ask for it (SearchSettings.keeps_curves)

    def to_json(self) -> dict[str, Any]:
        return {
            "rung": self.rung,
            "epochs": self.epochs,
            "values": dict(self.values),
            "curve": [list(point) for point in self.curve],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RungResult:
        curve = tuple((int(epoch), float(value)) for epoch, value in data.get("curve", ()))
        return cls(data["rung"], data["epochs"], dict(data["values"]), curve)


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration and everything that was seen of it.

    `number` counts from 1. `rung` is the one that its newest job trains to; rungs count from 0,
    and a rung's `epochs` are the total that have been trained when it ends. `results` are in the
    order of their rungs, at most one for each.
    """

    number: int
    params: Params
    status: TrialStatus = TrialStatus.RUNNING
    rung: int = 0
    epochs: int | None = None
    results: tuple[RungResult, ...] = ()
    reason: str = ""  # why it failed or was stopped, in words for people
    proposed_by: str = ""  # `spec`, `start`, or the sampler's name: `random`, `bayesian`, `tpe` ...
    bracket: int = 0  # of Hyperband; 0 everywhere else
    parent: int | None = None  # the trial whose checkpoint it began from (population search)
    rule: str = ""  # of the diagnosis of its failure
    stopping: str = ""  # why it was told to stop, until its end is known
    held: bool = False  # its checkpoint could not be found: it is never promoted again
    note: str = ""  # what else people should know of it

    @property
    def is_running(self) -> bool:
        return self.status is TrialStatus.RUNNING

    @property
    def is_usable(self) -> bool:
        """True where its numbers count: for promotion, copies, models, and as the best."""
        return self.status in (TrialStatus.RUNNING, TrialStatus.COMPLETE) and bool(self.results)

    def result(self, rung: int) -> RungResult | None:
        """Its result at a rung, or None."""
        for result in self.results:
            if result.rung == rung:
                return result
        return None

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "params": dict(self.params),
            "status": self.status.value,
            "rung": self.rung,
            "epochs": self.epochs,
            "results": [result.to_json() for result in self.results],
            "reason": self.reason,
            "proposed_by": self.proposed_by,
            "bracket": self.bracket,
            "parent": self.parent,
            "rule": self.rule,
            "stopping": self.stopping,
            "held": self.held,
            "note": self.note,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Trial:
        known = dict(data)
        known["status"] = TrialStatus(known["status"])
        known["results"] = tuple(map(RungResult.from_json, known["results"]))
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Prior:
    """A configuration of an earlier search and what it gave: models start from it."""

    params: Params
    values: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        return {"params": dict(self.params), "values": dict(self.values)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Prior:
        return cls(dict(data["params"]), dict(data["values"]))


@dataclass(frozen=True, order=True)
class Merit:
    """How good a result is; the smaller the better. What breaks a limit comes after all else."""

    violation: float
    loss: float
    number: int = field(default=0)  # of equals the earlier trial


def merit_of(
    objectives: Sequence[Objective], values: Mapping[str, float], number: int = 0
) -> Merit:
    """The merit of values that has_all_metrics is True for."""
    violation = sum(goal.violation(values[goal.metric]) for goal in objectives)
    loss = sum(
        goal.weight * goal.loss(values[goal.metric]) / goal.scale
        for goal in objectives
        if goal.is_goal
    )
    return Merit(violation, loss, number)


def has_all_metrics(objectives: Iterable[Objective], values: Mapping[str, Any]) -> bool:
    """True where every objective's metric is there and finite."""
    return all(is_finite(values.get(objective.metric)) for objective in objectives)


def is_finite(value: Any) -> bool:
    """True for a number that is one: no bool, no NaN, no infinity."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)
