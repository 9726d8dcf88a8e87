"""Differential evolution: a good configuration, moved by the difference of two others, and mixed
with a fourth.

Its population are the best results of the highest rung that has enough of them; with fewer than it
needs, values are drawn by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tao_automl.propose.draw import uniform_params
from tao_automl.propose.evidence import Observed, Point, evidence_of, telling_rung
from tao_automl.rungs import halving
from tao_automl.rungs.step import New
from tao_automl.state import Search
from tao_automl.trial import Params

FEWEST = 4  # that a mutant is made of


def draw(search: Search, step: New, seed: int) -> Params:  # noqa: ARG001  rungs share a population
    found = population(search)
    if len(found) < FEWEST:
        return uniform_params(search.space, seed)
    chance = Random(seed)
    target, base, plus, minus = chance.sample(found, FEWEST)
    mutant = mutated(search, chance, base, plus, minus)
    return search.space.decode(crossed(search, chance, target, mutant))


def population(search: Search) -> list[Point]:
    """The points of the best third, `population_size` at most: trials are few, so it is greedy."""
    rungs = range(len(halving.levels(search.settings)))
    rung = telling_rung(search, rungs, FEWEST)
    observed = sorted(evidence_of(search, rung).observed, key=merit)
    size = max(min(search.settings.population_size, len(observed) // 3), FEWEST)
    return [one.point for one in observed[:size]]


def merit(one: Observed) -> tuple[float, float]:
    return (one.violation, one.loss)


def mutated(search: Search, chance: Random, base: Point, plus: Point, minus: Point) -> list[float]:
    """A point that leaves the cube in a coordinate is drawn anew there: at its bound all would
    gather.
    """
    factor = search.settings.mutation_factor
    moved = [
        one + factor * (more - less) for one, more, less in zip(base, plus, minus, strict=True)
    ]
    return [one if 0 <= one <= 1 else chance.random() for one in moved]


def crossed(search: Search, chance: Random, target: Point, mutant: Sequence[float]) -> list[float]:
    """The target, with each coordinate of the mutant by chance, and one of them for sure."""
    sure = chance.randrange(len(target))
    share = search.settings.crossover_prob
    return [
        new if place == sure or chance.random() < share else old
        for place, (old, new) in enumerate(zip(target, mutant, strict=True))
    ]
