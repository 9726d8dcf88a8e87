"""Space: all parameters of a search, and the way from their values to the unit cube and back. Pure.

A value that leaves here is within its bounds, of its type and meets every condition; a parameter
that does not apply is absent.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from tao_automl.near import near_name
from tao_automl.space.mistake import SpaceError, space_mistake
from tao_automl.space.parameter import (
    KINDS,
    NEAREST,
    Choice,
    Column,
    Limit,
    Optional,
    Parameter,
    Range,
    Several,
    Subset,
    Unsuitable,
    Values,
    canonical,
    columns_of,
    product_of,
    same_value,
)


@dataclass(frozen=True)
class Space:
    """Parameters, each after those that it depends on (`make_space` sorts them)."""

    parameters: tuple[Parameter, ...]

    @cached_property
    def width(self) -> int:
        """The number of coordinates of a point."""
        return sum(parameter.width for parameter in self.parameters)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """What each coordinate is to a model."""
        return tuple(itertools.chain.from_iterable(map(columns_of, self.parameters)))

    @cached_property
    def count(self) -> int | None:
        """The number of configurations, an upper bound where some parameters are conditional; None
        where it has no end.
        """
        return product_of([parameter.cells for parameter in self.parameters])

    @property
    def keys(self) -> list[str]:
        return [parameter.key for parameter in self.parameters]

    def decode(self, point: Sequence[float]) -> dict[str, Any]:
        """The values at a point of the unit cube. Coordinates beyond it count as its bounds."""
        return self.decode_by(lambda column: point[column])

    def decode_by(self, coordinate: Callable[[int], float]) -> dict[str, Any]:
        """The values at the coordinates that `coordinate` gives: asked for one column after the
        other, and only for those of parameters that apply.
        """
        values: dict[str, Any] = {}
        start = 0
        for parameter in self.parameters:
            stop = start + parameter.width
            if applies(parameter, values) and has_room(parameter, values):
                coordinates = [coordinate(column) for column in range(start, stop)]
                values[parameter.key] = parameter.decode(coordinates, values)
            start = stop
        return values

    def encode(self, params: Values) -> list[float] | None:
        """A point that decodes to these values; a half where a parameter does not apply. None where
        the values are not all there or not in the space.
        """
        point: list[float] = []
        values: dict[str, Any] = {}
        for parameter in self.parameters:
            if not applies(parameter, values) or not has_room(parameter, values):
                point.extend([0.5] * parameter.width)
                continue
            if parameter.key not in params:
                return None
            try:
                value = parameter.check(params[parameter.key], values)
            except Unsuitable:
                return None
            values[parameter.key] = value
            point.extend(parameter.encode(value, values))
        return point

    def check(self, params: Values) -> dict[str, Any]:
        """The values as they are kept; some may be missing, which are left to the spec.

        Raises SpaceError for a key that is no parameter (with the nearest), a value that it cannot
        have, and a parameter that does not apply.
        """
        for key in params:
            if key not in self.keys:
                raise space_mistake(key, "is no parameter of the search", near_name(key, self.keys))
        values: dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.key in params:
                values[parameter.key] = self.check_one(parameter, params, values)
        return values

    def check_one(self, parameter: Parameter, params: Values, values: Values) -> Any:
        if not applies(parameter, values):
            what = f"does not apply: it is for {when_text(parameter)}"
            raise space_mistake(parameter.key, what, "Leave it out.")
        try:
            return parameter.check(params[parameter.key], values)
        except Unsuitable as clause:
            raise space_mistake(parameter.key, str(clause)) from None

    def defaults(self) -> dict[str, Any]:
        """The defaults that are known, apply and are allowed: the spec as it stands."""
        values: dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.default is None or not applies(parameter, values):
                continue
            try:
                values[parameter.key] = parameter.check(parameter.default, values)
            except Unsuitable:
                continue
        return values

    def applying(self, params: Values) -> list[bool]:
        """For each coordinate, whether its parameter applies where the values are these."""
        return [
            parameter.key in params for parameter in self.parameters for _ in range(parameter.width)
        ]

    def with_defaults(self, defaults: Mapping[str, Any]) -> Space:
        """The space with the defaults of a spec, for the parameters that it has a value for."""
        return Space(
            tuple(
                replace(parameter, default=defaults.get(parameter.key, parameter.default))
                for parameter in self.parameters
            )
        )

    def to_json(self) -> list[dict[str, Any]]:
        return [parameter_to_json(parameter) for parameter in self.parameters]


def applies(parameter: Parameter, values: Values) -> bool:
    """True where the values that the parameter depends on are such that it counts."""
    return all(
        key in values and any(same_value(values[key], allowed) for allowed in options)
        for key, options in parameter.when
    )


def has_room(parameter: Parameter, values: Values) -> bool:
    """False where other values leave nothing of its range."""
    if isinstance(parameter, (Range, Choice)) and parameter.limits:
        try:
            parameter.cut(values)
        except Unsuitable:
            return False
    return True


def when_text(parameter: Parameter) -> str:
    return " and ".join(
        f"{key} {' or '.join(map(str, options))}" for key, options in parameter.when
    )


def make_space(parameters: Iterable[Parameter]) -> Space:
    """The space of these parameters, in an order in which each can be drawn.

    Raises SpaceError for a key that stands twice or within another, a parameter that another
    depends on and that is not there, and parameters that depend on each other in a circle.
    """
    found = list(parameters)
    check_keys([parameter.key for parameter in found])
    ordered = in_order(found)
    return Space(tuple(leaving_room(ordered)))


def check_keys(keys: Sequence[str]) -> None:
    if not keys:
        raise SpaceError("there is no parameter to search.", "", "Give one: train.lr: [0.1, 0.2]")
    for key in keys:
        if keys.count(key) > 1:
            raise space_mistake(key, "stands twice")
        within = [other for other in keys if other.startswith(f"{key}.")]
        if within:
            raise space_mistake(within[0], f"lies within {key}, which is searched as a whole")


def in_order(parameters: Sequence[Parameter]) -> list[Parameter]:
    keys = [parameter.key for parameter in parameters]
    for parameter in parameters:
        for parent in parameter.parents:
            if parent not in keys:
                what = f"depends on {parent}, which is no parameter of the search"
                raise space_mistake(parameter.key, what, near_name(parent, keys))
    check_conditions(parameters)
    ordered: list[Parameter] = []
    waiting = list(parameters)
    while waiting:
        ready = [one for one in waiting if is_ready(one, ordered)]
        if not ready:
            circle = ", ".join(one.key for one in waiting)
            raise space_mistake(waiting[0].key, f"and others depend on each other: {circle}")
        ordered.append(ready[0])
        waiting.remove(ready[0])
    return ordered


def check_conditions(parameters: Sequence[Parameter]) -> None:
    """Raises SpaceError for a condition on a value that its parameter never has."""
    options = {one.key: one.options for one in parameters if isinstance(one, Choice)}
    for parameter in parameters:
        for key, allowed in parameter.when:
            known = options.get(key, allowed)
            for value in allowed:
                if not any(same_value(value, option) for option in known):
                    what = f"counts where {key} is {value!r}, which it never is"
                    next = near_name(str(value), map(str, known))
                    raise space_mistake(parameter.key, what, next)


def is_ready(parameter: Parameter, before: Sequence[Parameter]) -> bool:
    return set(parameter.parents) <= {one.key for one in before}


def leaving_room(parameters: Sequence[Parameter]) -> list[Parameter]:
    """The same parameters; a range that bounds another ends where that still has a value."""
    found = {parameter.key: parameter for parameter in parameters}
    for parameter in reversed(parameters):
        child = found[parameter.key]
        for limit in getattr(child, "limits", ()):
            parent = found[limit.key]
            if isinstance(parent, Range) and isinstance(child, Range):
                found[limit.key] = with_room(parent, child, limit)
    return [found[parameter.key] for parameter in parameters]


def with_room(parent: Range, child: Range, limit: Limit) -> Range:
    if limit.is_lower:
        room = room_of(child, limit)
        bound = replace(parent, limits=()).cut_by(Limit("<=", child.key), child.high - room)
    else:
        room = room_of(child, limit)
        bound = replace(parent, limits=()).cut_by(Limit(">=", child.key), child.low + room)
    if bound.low > bound.high:
        what = f"can never be {limit.sign} {parent.key}: their ranges do not allow it"
        raise space_mistake(child.key, what)
    return replace(bound, limits=parent.limits)


def room_of(child: Range, limit: Limit) -> float:
    if not limit.is_strict:
        return 0.0
    return child.step or NEAREST * (child.high - child.low)


def parameter_to_json(parameter: Parameter) -> dict[str, Any]:
    """Its fields, with `kind`."""
    values = {
        one.name: plain(getattr(parameter, one.name)) for one in dataclasses.fields(parameter)
    }
    return {"kind": parameter.kind, **values}


def plain(value: Any) -> Any:
    if isinstance(value, (Range, Choice, Several, Subset, Optional)):
        return parameter_to_json(value)
    if isinstance(value, Limit):
        return {"sign": value.sign, "key": value.key}
    if isinstance(value, (tuple, list)):
        return [plain(element) for element in cast("Sequence[Any]", value)]
    return value


def parameter_from_json(data: Mapping[str, Any]) -> Parameter:
    known = {name: value for name, value in data.items() if name != "kind"}
    known["when"] = tuple((key, tuple(options)) for key, options in known["when"])
    for name in ("options", "weights"):
        if name in known:
            known[name] = tuple(known[name])
    if "limits" in known:
        known["limits"] = tuple(Limit(**limit) for limit in known["limits"])
    if "parts" in known:
        known["parts"] = tuple(map(parameter_from_json, known["parts"]))
    if "inner" in known:
        known["inner"] = parameter_from_json(known["inner"])
    return KINDS[data["kind"]](**known)


def space_from_json(data: Sequence[Mapping[str, Any]]) -> Space:
    """The space that `to_json` gave."""
    return Space(tuple(map(parameter_from_json, data)))


def signature(params: Values) -> str:
    """The same text for equal configurations."""
    return canonical(dict(params))
