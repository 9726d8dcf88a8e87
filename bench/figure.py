"""Figure: one measured claim, beside what it is measured against and what it should be. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, Literal

from bench.goals import GOALS, Goal

Unit = Literal["seconds", "bytes", "times", "per second", "questions", "regret"]


@dataclass(frozen=True)
class Spread:
    """What the rounds gave: the middle value, and the range that holds the middle half of them."""

    unit: Unit
    median: float
    low: float
    high: float
    rounds: int

    def to_json(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "median": self.median,
            "low": self.low,
            "high": self.high,
            "rounds": self.rounds,
        }


def spread(values: Sequence[float], unit: Unit) -> Spread:
    low, _, high = (
        quantiles(values, n=4, method="inclusive") if len(values) > 1 else (values[0],) * 3
    )
    return Spread(unit, median(values), low, high, len(values))


@dataclass(frozen=True)
class Figure:
    """`result` is what the goal is about; `measured` and `against` are what it was made of."""

    key: str  # in goals.py, and in the JSON
    title: str
    meaning: str  # one sentence for a reader of the table
    measured: Spread
    result: Spread
    against: Spread | None = None
    against_what: str = ""

    @property
    def goal(self) -> Goal | None:
        return GOALS.get(self.key)

    @property
    def met(self) -> bool | None:
        """None where there is no goal."""
        return None if self.goal is None else self.goal.met_by(self.result.median)

    def to_json(self) -> dict[str, Any]:
        goal = {"limit": self.goal.limit, "at_least": self.goal.at_least} if self.goal else None
        return {
            "key": self.key,
            "title": self.title,
            "meaning": self.meaning,
            "measured": self.measured.to_json(),
            "against": self.against.to_json() if self.against else None,
            "against_what": self.against_what,
            "result": self.result.to_json(),
            "goal": goal,
            "met": self.met,
        }

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> Figure:
        """Its goal is that of today's table."""
        against = known["against"]
        return cls(
            known["key"],
            known["title"],
            known["meaning"],
            Spread(**known["measured"]),
            Spread(**known["result"]),
            Spread(**against) if against else None,
            known["against_what"],
        )


def ratio(
    key: str,
    title: str,
    meaning: str,
    measured: Sequence[float],
    against: Sequence[float],
    against_what: str,
) -> Figure:
    """Seconds over seconds, round by round: what slowed the machine for a round slowed both."""
    quotients = [ours / theirs for ours, theirs in zip(measured, against, strict=True)]
    return Figure(
        key,
        title,
        meaning,
        spread(measured, "seconds"),
        spread(quotients, "times"),
        spread(against, "seconds"),
        against_what,
    )


def rate(key: str, title: str, meaning: str, seconds: Sequence[float], count: int) -> Figure:
    """How many a second, when `count` of them took `seconds`."""
    found = spread([count / each for each in seconds], "per second")
    return Figure(key, title, meaning, spread(seconds, "seconds"), found)


def per_item(key: str, title: str, meaning: str, seconds: Sequence[float]) -> Figure:
    """The seconds that one of many takes."""
    found = spread(seconds, "seconds")
    return Figure(key, title, meaning, found, found)


def size(key: str, title: str, meaning: str, found: int) -> Figure:
    """A size that does not vary."""
    return Figure(key, title, meaning, spread([found], "bytes"), spread([found], "bytes"))


def size_ratio(
    key: str, title: str, meaning: str, found: int, against: int, against_what: str
) -> Figure:
    measured, other = spread([found], "bytes"), spread([against], "bytes")
    return Figure(
        key, title, meaning, measured, spread([found / against], "times"), other, against_what
    )


def more_seconds(
    key: str,
    title: str,
    meaning: str,
    measured: Sequence[float],
    against: Sequence[float],
    against_what: str,
) -> Figure:
    """Seconds more than `against`, round by round."""
    more = [ours - theirs for ours, theirs in zip(measured, against, strict=True)]
    return Figure(
        key,
        title,
        meaning,
        spread(measured, "seconds"),
        spread(more, "seconds"),
        spread(against, "seconds"),
        against_what,
    )


def count(key: str, title: str, meaning: str, found: int, seconds: float) -> Figure:
    """How many questions something took; they do not vary."""
    return Figure(key, title, meaning, spread([seconds], "seconds"), spread([found], "questions"))


def growth(
    key: str,
    title: str,
    meaning: str,
    measured: Sequence[int],
    against: Sequence[int],
    against_what: str,
) -> Figure:
    """Bytes of memory more than `against`."""
    more = [ours - theirs for ours, theirs in zip(measured, against, strict=True)]
    return Figure(
        key,
        title,
        meaning,
        spread(measured, "bytes"),
        spread(more, "bytes"),
        spread(against, "bytes"),
        against_what,
    )
