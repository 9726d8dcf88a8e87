"""Quasi-random points: they fill the unit cube evenly, whatever their number.

Point n has the fractional parts of n times powers of the inverse of a generalized golden ratio,
moved by chance as a whole.
"""

from __future__ import annotations

from random import Random

from tao_automl.propose.draw import stream_seed
from tao_automl.rungs.step import New
from tao_automl.space.space import Space
from tao_automl.state import Search
from tao_automl.trial import Params


def draw(search: Search, step: New, seed: int) -> Params:  # noqa: ARG001  each point is given
    return even_params(search.space, search.seed, search.draws)


def even_params(space: Space, seed: int, number: int) -> Params:
    """The configuration at point `number` of the sequence that this seed has."""
    chance = Random(stream_seed(seed, 0))
    ratio = golden_ratio(space.width)
    return space.decode(
        [
            (chance.random() + (number + 1) * ratio ** -(place + 1)) % 1.0
            for place in range(space.width)
        ]
    )


def golden_ratio(width: int) -> float:
    """The root of x ** (width + 1) = x + 1."""
    found = 2.0
    for _ in range(60):
        found = (1 + found) ** (1 / (width + 1))
    return found
