"""Perturbation: the values of a parent, each a step away: the explore of population based training.

A number moves by the perturbation factor of its value, at least by one of its steps; an ordered
choice to a neighbour; any other choice is drawn anew now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tao_automl.propose.draw import uniform_params
from tao_automl.rungs.step import New
from tao_automl.space.parameter import Column, Parameter, Range, Unsuitable, columns_of
from tao_automl.space.space import Space
from tao_automl.state import Search
from tao_automl.trial import Params

REDRAWN = 0.25  # how often a choice without an order is drawn anew


def draw(search: Search, step: New, seed: int) -> Params:
    """The parent's values, perturbed; values by chance for a member without a parent."""
    if step.parent is None:
        return uniform_params(search.space, seed)
    parent = search.trial(step.parent)
    return perturbed(search.space, parent.params, search.settings.perturbation_factor, Random(seed))


def perturbed(space: Space, params: Params, factor: float, chance: Random) -> Params:
    """What did not apply to the parent and does now is drawn by chance."""
    known = {**space.decode([chance.random() for _ in range(space.width)]), **params}
    values: dict[str, Any] = {}
    point: list[float] = []
    for parameter in space.parameters:
        value = known.get(parameter.key)
        point.extend(moved(parameter, value, values, factor, chance))
        values = space.decode([*point, *[0.5] * (space.width - len(point))])
    return space.decode(point)


def moved(
    parameter: Parameter, value: Any, others: Params, factor: float, chance: Random
) -> list[float]:
    """Coordinates a step away from a value; by chance where it is none of the parameter's."""
    try:
        value = parameter.check(value, others)
        units = parameter.encode(value, others)
    except Unsuitable:
        return [chance.random() for _ in range(parameter.width)]
    if isinstance(parameter, Range):
        return [stepped(parameter, float(value), units[0], factor, chance)]
    return moved_columns(columns_of(parameter), units, chance)


def stepped(found: Range, value: float, unit: float, factor: float, chance: Random) -> float:
    """The coordinate of the value times or divided by the factor."""
    up = chance.random() < 0.5
    wanted = next_value(found, value, factor, up)
    if not found.low <= wanted <= found.high:
        wanted = next_value(found, value, factor, not up)
    return found.place(min(max(wanted, found.low), found.high)) if wanted != value else unit


def next_value(found: Range, value: float, factor: float, up: bool) -> float:
    """The value times or divided by the factor, but at least a step of the parameter away."""
    smallest = found.step or 0.0
    if value == 0:
        smallest = smallest or (found.high - found.low) / 100
    wanted = value * factor if up else value / factor
    if abs(wanted - value) >= smallest:
        return wanted
    return value + smallest if up else value - smallest


def moved_columns(columns: Sequence[Column], units: Sequence[float], chance: Random) -> list[float]:
    return [moved_column(column, unit, chance) for column, unit in zip(columns, units, strict=True)]


def moved_column(column: Column, unit: float, chance: Random) -> float:
    if not column.uppers:
        return min(max(unit + chance.choice((-0.1, 0.1)), 0.0), 1.0)
    if not column.is_ordered:
        return chance.random() if chance.random() < REDRAWN else unit
    cell = column.cell(unit) + chance.choice((-1, 1))
    return column.middle(min(max(cell, 0), len(column.uppers) - 1))
