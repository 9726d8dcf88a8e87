"""Table: figures as people read them (markdown) and as programs do (JSON). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.figure import Figure, Spread, Unit
from bench.goals import KIB, MIB, Goal
from bench.measurement import Measurement

HEADINGS = ("figure", "measured", "against", "result", "goal", "")
VERDICTS = {None: "", True: "met", False: "**MISSED**"}


def markdown(figures: Sequence[Figure]) -> str:
    lines = [cells(HEADINGS), cells(["---"] * len(HEADINGS)), *map(row, figures)]
    return "\n".join(lines) + "\n"


def row(figure: Figure) -> str:
    against = f"{ranged(figure.against)} {figure.against_what}" if figure.against else ""
    goal = bound(figure.goal, figure.result.unit) if figure.goal else ""
    return cells(
        [
            figure.title,
            ranged(figure.measured),
            against,
            ranged(figure.result),
            goal,
            VERDICTS[figure.met],
        ]
    )


def cells(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def ranged(spread: Spread) -> str:
    """The middle value, and where the middle half lies unless that is the same."""
    low, middle, high = (
        quantity(value, spread.unit) for value in (spread.low, spread.median, spread.high)
    )
    return middle if low == high else f"{middle} ({low} – {high})"


def bound(goal: Goal, unit: Unit) -> str:
    return f"{'≥' if goal.at_least else '≤'} {quantity(goal.limit, unit)}"


def quantity(value: float, unit: Unit) -> str:
    """Three digits that say something, in the unit that fits."""
    if unit == "seconds":
        return in_seconds(value)
    if unit == "bytes":
        return in_bytes(value)
    if unit == "questions":
        return f"{value:.0f} question" + ("" if value == 1 else "s")
    if unit == "regret":
        return f"{value:.2g}"
    return f"{digits(value)}×" if unit == "times" else f"{value:,.0f}/s"


def in_seconds(value: float) -> str:
    if value >= 1:
        return f"{digits(value)} s"
    return f"{digits(value * 1e3)} ms" if value >= 1e-3 else f"{digits(value * 1e6)} µs"


def in_bytes(value: float) -> str:
    return f"{digits(value / MIB)} MiB" if abs(value) >= 256 * KIB else f"{value:,.0f} B"


def digits(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def document(measurements: Sequence[Measurement]) -> dict[str, Any]:
    """What `--json` prints."""
    return {"schema": 2, "groups": [measurement.to_json() for measurement in measurements]}
