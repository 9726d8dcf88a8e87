"""Grid search: every combination of a few values of each parameter.

A number has as many levels as the number of trials allows, both ends among them; a choice has all
its options. Where the grid has more points than there are trials, a part of it is taken by chance.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

from tao_automl.propose.draw import stream_seed
from tao_automl.rungs.step import New
from tao_automl.space.parameter import Choice
from tao_automl.space.space import Space, applies, signature
from tao_automl.state import Search
from tao_automl.trial import Params

MOST_POINTS = 100_000  # that a grid is made of at most


def draw(search: Search, step: New, seed: int) -> Params | None:  # noqa: ARG001  it knows no chance
    """The first point of the grid that was not tried; None after the last one."""
    tried = {signature(trial.params) for trial in search.trials}
    for params in grid_of(search):
        if signature(params) not in tried:
            return params
    return None


def grid_of(search: Search) -> list[Params]:
    """The points in the order in which they are tried."""
    most = search.settings.most_trials
    points = list(itertools.islice(combinations(search.space, most), MOST_POINTS))
    if len(points) > most:
        Random(stream_seed(search.seed, 0)).shuffle(points)
    return points


def combinations(space: Space, most: int) -> Iterator[Params]:
    count = level_count(space, most)
    columns = [parameter.levels(count) for parameter in space.parameters]
    known: set[str] = set()
    for values in itertools.product(*columns):
        params = applying(space, dict(zip(space.keys, values, strict=True)))
        text = signature(params)
        if text not in known and space.encode(params) is not None:
            known.add(text)
            yield params


def level_count(space: Space, most: int) -> int:
    """How many levels numbers have: the most of which a grid still fits, two at least."""
    numbers = [one for one in space.parameters if not isinstance(one, Choice)]
    options = 1
    for parameter in space.parameters:
        if isinstance(parameter, Choice):
            options *= len(parameter.options)
    if not numbers:
        return 2
    return max(2, int((most / options) ** (1 / len(numbers)) + 1e-9))


def applying(space: Space, values: dict[str, Any]) -> Params:
    """Without what does not apply."""
    found: dict[str, Any] = {}
    for parameter in space.parameters:
        if applies(parameter, found):
            found[parameter.key] = values[parameter.key]
    return found
