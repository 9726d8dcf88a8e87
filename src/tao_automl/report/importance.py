"""Importance: which parameters the results depend on, and how much. Pure, standard library alone.

The importance of a parameter is the part of the results' variance that it explains by itself. The
results are replaced by their ranks, so that one loss that has exploded does not decide; the values
of a parameter are grouped, each choice by itself and numbers into groups of equal size; the part is
Kelley's epsilon squared, the correlation ratio less what so many groups explain by chance. The
parts are divided by their sum. What two parameters do only together is not seen.

Sources: K. Pearson (1905), On the general theory of skew correlation (the correlation ratio);
T. L. Kelley (1935), An unbiased correlation ratio measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tao_automl.propose.evidence import encoded
from tao_automl.space.parameter import Column
from tao_automl.state import Search
from tao_automl.trial import Merit, RungResult, Trial

FEWEST = 6  # results, before anything is said of them
MOST_GROUPS = 5
FEWEST_IN_GROUP = 3


def importance_of(search: Search) -> dict[str, float]:
    """Parameter -> its part, the largest first; all together 1.0. Empty where too few trials have
    ended, or nothing can be told from chance. Compared are results of one rung, the one that most
    trials have ended.
    """
    pairs = list(results_compared(search))
    points = [encoded(search.space, trial.params) for trial, _ in pairs]
    known = [place for place, point in enumerate(points) if point]
    if len(known) < FEWEST:
        return {}
    ranks = ranks_of([search.merit(*pairs[place]) for place in known])
    parts: dict[str, float] = {}
    for number, column in enumerate(search.space.columns):
        units = [(points[place] or ())[number] for place in known]
        applies = [column.key in pairs[place][0].params for place in known]
        part = explained_part(column, units, applies, ranks)
        parts[column.key] = max(parts.get(column.key, 0.0), part)
    return shares_of(parts)


def results_compared(search: Search) -> Sequence[tuple[Trial, RungResult]]:
    """The usable results of the rung that has most of them; of equals the highest."""
    rungs = {result.rung for trial in search.trials for result in trial.results}
    at_rungs = [list(search.results_at(rung)) for rung in sorted(rungs, reverse=True)]
    return max(at_rungs, key=len) if at_rungs else []


def shares_of(parts: Mapping[str, float]) -> dict[str, float]:
    """The parts divided by their sum, the largest first. Empty where there is none."""
    total = sum(parts.values())
    if not total:
        return {}
    order = sorted(parts, key=lambda key: (-parts[key], key))
    return {key: parts[key] / total for key in order}


def ranks_of(merits: Sequence[Merit]) -> list[float]:
    """The place of each in the order of all."""
    order = sorted(range(len(merits)), key=lambda place: merits[place])
    ranks = [0.0] * len(merits)
    for rank, place in enumerate(order):
        ranks[place] = float(rank)
    return ranks


def explained_part(
    column: Column, units: Sequence[float], applies: Sequence[bool], ranks: Sequence[float]
) -> float:
    """The part of the variance that one column explains where it applies; 0.0 where chance would
    explain as much.
    """
    kept = [(unit, rank) for unit, rank, is_so in zip(units, ranks, applies, strict=True) if is_so]
    if len(kept) < FEWEST:
        return 0.0
    groups = grouped_ranks(column, kept)
    whole = square_sum(ranks)
    between = square_sum([rank for _, rank in kept]) - sum(map(square_sum, groups))
    free = len(kept) - len(groups)
    if len(groups) < 2 or free < 1:
        return 0.0
    by_chance = (len(groups) - 1) * sum(map(square_sum, groups)) / free
    return max(between - by_chance, 0.0) / whole


def square_sum(values: Sequence[float]) -> float:
    """The sum of the squared distances from the mean."""
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)


def grouped_ranks(column: Column, pairs: Sequence[tuple[float, float]]) -> list[list[float]]:
    """The ranks of each choice, or of equal numbers of neighbours."""
    if not column.is_ordered:
        cells: dict[int, list[float]] = {}
        for unit, rank in pairs:
            cells.setdefault(column.cell(unit), []).append(rank)
        return list(cells.values())
    count = min(MOST_GROUPS, len(pairs) // FEWEST_IN_GROUP)
    groups: dict[int, list[float]] = {}
    ordered = sorted(pairs)
    firsts: dict[float, int] = {}
    for place, (unit, rank) in enumerate(ordered):
        first = firsts.setdefault(unit, place)  # equal values are in one group
        groups.setdefault(first * count // len(ordered), []).append(rank)
    return list(groups.values())
