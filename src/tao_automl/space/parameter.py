"""Parameters: what one key of the spec may be, and how its values lie in the unit cube. Pure.

Five kinds: Range (a number), Choice (one of several values), Several (a list of numbers), Subset (a
part of several values) and Optional (None, or one of the others). Each has a `width`, the number
of coordinates it takes. `decode` gives a value that is allowed, whatever the coordinates; both ends
of a range are among its values. `encode` gives coordinates that decode to the value.

`others` are the values of the parameters before it, which may cut its range.
"""

from __future__ import annotations

import itertools
import json
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

Values = Mapping[str, Any]
When = tuple[tuple[str, tuple[Any, ...]], ...]  # all of them: (key, the values that it may have)

DIGITS = 6  # that a drawn number has
NEAREST = 1e-3  # of the rest of a range: what lies between a number and the least above it
TINY = 1e-9
MOST_CELLS = 64  # of a range whose values a model tells apart


class Unsuitable(ValueError):
    """A value that a parameter cannot have. The text goes on from its key: `must be at most 2`."""


@dataclass(frozen=True)
class Limit:
    """A bound by the value of another parameter: `{"sign": ">", "key": "train.lr_min"}`."""

    sign: str  # > >= < <=
    key: str

    @property
    def is_lower(self) -> bool:
        return self.sign.startswith(">")

    @property
    def is_strict(self) -> bool:
        return self.sign in ("<", ">")


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high`, both included. With `step` it is `low` plus whole steps."""

    key: str
    low: float
    high: float
    is_int: bool = False
    is_log: bool = False
    step: float | None = None
    default: Any = None
    when: When = ()
    limits: tuple[Limit, ...] = ()
    kind = "range"

    @property
    def width(self) -> int:
        return 1

    @property
    def parents(self) -> tuple[str, ...]:
        return (*(key for key, _ in self.when), *(limit.key for limit in self.limits))

    @property
    def cells(self) -> int | None:
        """The number of values, None where they are continuous."""
        if self.step is None:
            return None
        return math.floor((self.high - self.low) / self.step + TINY) + 1

    def decode(self, coordinates: Sequence[float], others: Values) -> Any:
        """The value at a coordinate. Raises Unsuitable where `others` leave none."""
        return self.cut(others).at(min(max(coordinates[0], 0.0), 1.0))

    def at(self, unit: float) -> Any:
        if self.step is None:
            if unit in (0, 1):
                return float(self.high if unit else self.low)
            return self.rounded(self.between(unit))
        if not self.is_log:
            return self.nth(min(int(unit * self.cell_count), self.cell_count - 1))
        return self.snapped(self.between(unit))

    @property
    def cell_count(self) -> int:
        return self.cells or 1

    def between(self, unit: float) -> float:
        """The number at a part of the way from the low end to the high one."""
        low, high = self.ends()
        if not self.is_log:
            return low + unit * (high - low)
        return math.exp(math.log(low) + unit * (math.log(high) - math.log(low)))

    def ends(self) -> tuple[float, float]:
        """Half a cell further on both sides where values are cells on a log scale."""
        if self.step is None or not self.is_log:
            return self.low, self.high
        half = min(self.step / 2, self.low / 2)
        return self.low - half, self.high + self.step / 2

    def nth(self, cell: int) -> Any:
        """Value number `cell`, from 0 on."""
        if self.is_int:
            return round(self.low) + cell * round(self.step or 1)
        value = self.low + cell * (self.step or 0.0)
        return self.bounded(round(value, 12))

    def snapped(self, number: float) -> Any:
        cell = round((number - self.low) / (self.step or 1))
        return self.nth(min(max(cell, 0), self.cell_count - 1))

    def rounded(self, number: float) -> float:
        """With DIGITS digits that matter in this range."""
        size = abs(number) if self.is_log else self.high - self.low
        if size == 0:
            return self.bounded(number)
        digits = DIGITS - 1 - math.floor(math.log10(size))
        return self.bounded(round(number, digits))

    def bounded(self, number: float) -> float:
        return float(min(max(number, self.low), self.high))

    def encode(self, value: Any, others: Values) -> list[float]:
        return [self.cut(others).place(float(value))]

    def place(self, number: float) -> float:
        if self.step is not None and not self.is_log:
            cell = round((number - self.low) / self.step)
            return (min(max(cell, 0), self.cell_count - 1) + 0.5) / self.cell_count
        low, high = self.ends()
        number = min(max(number, low), high)
        if high == low:
            return 0.5
        if self.is_log:
            return math.log(number / low) / math.log(high / low)
        return (number - low) / (high - low)

    def check(self, value: Any, others: Values) -> Any:
        """The value as it is kept. Raises Unsuitable."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Unsuitable(f"is {value!r}; it must be a number")
        if not math.isfinite(value) or not self.low <= value <= self.high:
            raise Unsuitable(f"is {value!r}; it must be {range_text(self)}")
        self.check_limits(value, others)
        return self.on_grid(value)

    def check_limits(self, value: float, others: Values) -> None:
        for limit in self.limits:
            if limit.key in others and not holds(value, limit.sign, others[limit.key]):
                found = others[limit.key]
                raise Unsuitable(f"is {value!r}; it must be {limit.sign} {limit.key} ({found!r})")

    def on_grid(self, value: float) -> Any:
        if self.step is None:
            return float(value)
        nearest = self.snapped(value)
        if not math.isclose(nearest, value, rel_tol=TINY, abs_tol=TINY * self.step):
            words = "a whole number" if self.is_int and self.step == 1 else steps_text(self)
            raise Unsuitable(f"is {value!r}; it must be {words}")
        return nearest

    def cut(self, others: Values) -> Range:
        """The part of the range that the others leave. Raises Unsuitable where that is nothing."""
        found = self
        for limit in self.limits:
            if limit.key in others:
                found = found.cut_by(limit, float(others[limit.key]))
        if found.low > found.high:
            raise Unsuitable(f"has no value left between {found.low:g} and {found.high:g}")
        return found

    def cut_by(self, limit: Limit, other: float) -> Range:
        if self.step is not None:
            return self.cut_cells(limit, other)
        if limit.is_lower:
            room = (self.high - other) * NEAREST if limit.is_strict else 0.0
            beyond = other + room if room > 0 or not limit.is_strict else math.inf
            return replace(self, low=max(self.low, beyond))
        room = (other - self.low) * NEAREST if limit.is_strict else 0.0
        beyond = other - room if room > 0 or not limit.is_strict else -math.inf
        return replace(self, high=min(self.high, beyond))

    def cut_cells(self, limit: Limit, other: float) -> Range:
        """The same, for a number that has steps: its grid stays."""
        step = self.step or 1
        cells = (other - self.low) / step
        if limit.is_lower:
            first = math.floor(cells + TINY) + 1 if limit.is_strict else math.ceil(cells - TINY)
            return replace(self, low=self.low + max(first, 0) * step)
        last = math.ceil(cells - TINY) - 1 if limit.is_strict else math.floor(cells + TINY)
        return replace(self, high=min(self.high, self.low + last * step))

    def levels(self, count: int) -> list[Any]:
        """At most `count` values over the range, with both ends: a grid's."""
        count = min(count, self.cells or count)
        if count < 2:
            return [self.at(0.5)]
        return list(dict.fromkeys(self.at(place / (count - 1)) for place in range(count)))


@dataclass(frozen=True)
class Choice:
    """One of `options`. With `is_ordered` neighbours are alike. No option has the weight 0."""

    key: str
    options: tuple[Any, ...]
    weights: tuple[float, ...] = ()  # empty: all alike
    is_ordered: bool = False
    default: Any = None
    when: When = ()
    limits: tuple[Limit, ...] = ()
    kind = "choice"

    @property
    def width(self) -> int:
        return 1

    @property
    def parents(self) -> tuple[str, ...]:
        return (*(key for key, _ in self.when), *(limit.key for limit in self.limits))

    @property
    def cells(self) -> int:
        return len(self.options)

    def decode(self, coordinates: Sequence[float], others: Values) -> Any:
        unit = min(max(coordinates[0], 0.0), 1.0)
        left = self.cut(others)
        upto = 0.0
        for option, weight in zip(left.options, left.shares(), strict=True):
            upto += weight
            if unit < upto:
                return option
        return left.options[-1]

    def shares(self) -> list[float]:
        """The part of the unit interval that each option has."""
        weights = self.weights or (1.0,) * len(self.options)
        return [weight / sum(weights) for weight in weights]

    def encode(self, value: Any, others: Values) -> list[float]:
        left = self.cut(others)
        place, shares = left.index(value), left.shares()
        return [sum(shares[:place]) + shares[place] / 2]

    def index(self, value: Any) -> int:
        """Raises Unsuitable where the value is no option. True is not 1, and 1 is not "1"."""
        for place, option in enumerate(self.options):
            if same_value(option, value):
                return place
        raise Unsuitable(f"is {value!r}; it must be one of {options_text(self.options)}")

    def check(self, value: Any, others: Values) -> Any:
        left = self.cut(others)
        return left.options[left.index(value)]

    def cut(self, others: Values) -> Choice:
        """The options that the others leave. Raises Unsuitable where none is left."""
        limits = [limit for limit in self.limits if limit.key in others]
        kept = [
            place
            for place, option in enumerate(self.options)
            if all(holds(option, limit.sign, others[limit.key]) for limit in limits)
        ]
        if not kept:
            raise Unsuitable(f"has no option left of {options_text(self.options)}")
        if len(kept) == len(self.options):
            return self
        weights = tuple(self.weights[place] for place in kept) if self.weights else ()
        return replace(self, options=tuple(self.options[place] for place in kept), weights=weights)

    def levels(self, count: int) -> list[Any]:  # noqa: ARG002  an option is not left out
        return list(self.options)


Part = Range | Choice


@dataclass(frozen=True)
class Several:
    """A list whose elements are `parts`, in their order."""

    key: str
    parts: tuple[Part, ...]
    default: Any = None
    when: When = ()
    kind = "several"

    @property
    def width(self) -> int:
        return len(self.parts)

    @property
    def parents(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.when)

    @property
    def cells(self) -> int | None:
        return product_of([part.cells for part in self.parts])

    def decode(self, coordinates: Sequence[float], others: Values) -> Any:
        return [
            part.decode([unit], others) for part, unit in zip(self.parts, coordinates, strict=True)
        ]

    def encode(self, value: Any, others: Values) -> list[float]:
        return [
            part.encode(element, others)[0] for part, element in zip(self.parts, value, strict=True)
        ]

    def check(self, value: Any, others: Values) -> Any:
        if not isinstance(value, (list, tuple)):
            raise Unsuitable(f"is {value!r}; it must be a list of {len(self.parts)}")
        elements = cast("Sequence[Any]", value)
        if len(elements) != len(self.parts):
            raise Unsuitable(f"is {value!r}; it must be a list of {len(self.parts)}")
        return [
            part.check(element, others) for part, element in zip(self.parts, elements, strict=True)
        ]

    def levels(self, count: int) -> list[Any]:
        columns = [part.levels(count) for part in self.parts]
        most = max(map(len, columns))
        return [[column[min(row, len(column) - 1)] for column in columns] for row in range(most)]


@dataclass(frozen=True)
class Subset:
    """A list of some of `options`, one at least, in the order of the options."""

    key: str
    options: tuple[Any, ...]
    default: Any = None
    when: When = ()
    kind = "subset"

    @property
    def width(self) -> int:
        return len(self.options)

    @property
    def parents(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.when)

    @property
    def cells(self) -> int:
        return 2 ** len(self.options) - 1

    def decode(self, coordinates: Sequence[float], others: Values) -> Any:  # noqa: ARG002
        highest = max(coordinates)
        return [
            option
            for option, unit in zip(self.options, coordinates, strict=True)
            if unit >= min(highest, 0.5)
        ]

    def encode(self, value: Any, others: Values) -> list[float]:  # noqa: ARG002
        return [
            0.75 if any(same_value(option, one) for one in value) else 0.25
            for option in self.options
        ]

    def check(self, value: Any, others: Values) -> Any:  # noqa: ARG002
        if not isinstance(value, (list, tuple)) or not value:
            raise Unsuitable(f"is {value!r}; it must be a list, and not empty")
        elements = cast("Sequence[Any]", value)
        for element in elements:
            if not any(same_value(option, element) for option in self.options):
                raise Unsuitable(f"has {element!r}; allowed are {options_text(self.options)}")
        return [
            option
            for option in self.options
            if any(same_value(option, element) for element in elements)
        ]

    def levels(self, count: int) -> list[Any]:
        return [list(self.options[: place + 1]) for place in range(min(count, len(self.options)))]


@dataclass(frozen=True)
class Optional:
    """None, or what `inner` may be. Its first coordinate says which: below a half it is None."""

    key: str
    inner: Range | Choice | Several | Subset
    default: Any = None
    when: When = ()
    kind = "optional"

    @property
    def width(self) -> int:
        return 1 + self.inner.width

    @property
    def parents(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.when)

    @property
    def cells(self) -> int | None:
        inner = self.inner.cells
        return None if inner is None else inner + 1

    def decode(self, coordinates: Sequence[float], others: Values) -> Any:
        if coordinates[0] < 0.5:
            return None
        return self.inner.decode(coordinates[1:], others)

    def encode(self, value: Any, others: Values) -> list[float]:
        if value is None:
            return [0.25, *[0.5] * self.inner.width]
        return [0.75, *self.inner.encode(value, others)]

    def check(self, value: Any, others: Values) -> Any:
        return None if value is None else self.inner.check(value, others)

    def levels(self, count: int) -> list[Any]:
        return [None, *self.inner.levels(max(count - 1, 1))]


Parameter = Range | Choice | Several | Subset | Optional
KINDS: Mapping[str, type[Parameter]] = {
    one.kind: one for one in (Range, Choice, Several, Subset, Optional)
}


@dataclass(frozen=True)
class Column:
    """One coordinate as a model sees it. `uppers` are the upper ends of its cells where it has few
    values, each cell being one of them; empty where it is continuous.
    """

    key: str
    uppers: tuple[float, ...] = ()
    is_ordered: bool = True  # False: its cells are no more alike than any others

    def cell(self, unit: float) -> int:
        """The cell that a coordinate lies in."""
        return min(bisect_right(self.uppers, unit), len(self.uppers) - 1)

    def middle(self, cell: int) -> float:
        lower = self.uppers[cell - 1] if cell else 0.0
        return (lower + self.uppers[cell]) / 2


def columns_of(parameter: Parameter) -> list[Column]:
    """The columns of a parameter, one for each of its coordinates."""
    if isinstance(parameter, Range):
        return [Column(parameter.key, uppers_of(parameter))]
    if isinstance(parameter, Choice):
        uppers = tuple(itertools.accumulate(parameter.shares()))
        return [Column(parameter.key, uppers, parameter.is_ordered)]
    if isinstance(parameter, Several):
        return list(itertools.chain.from_iterable(map(columns_of, parameter.parts)))
    if isinstance(parameter, Subset):
        return [switch_of(parameter.key) for _ in parameter.options]
    return [switch_of(parameter.key), *columns_of(parameter.inner)]


def switch_of(key: str) -> Column:
    """A coordinate that is off below a half."""
    return Column(key, (0.5, 1.0), is_ordered=False)


def uppers_of(found: Range) -> tuple[float, ...]:
    """The upper ends of the cells of a range; none where it has so many that they do not matter."""
    if found.cells is None or found.cells > MOST_CELLS:
        return ()
    if not found.is_log:
        return tuple((cell + 1) / found.cells for cell in range(found.cells))
    half = (found.step or 1) / 2
    ends = [found.place(found.low + cell * half * 2 + half) for cell in range(found.cells)]
    return (*ends[:-1], 1.0)


def holds(value: Any, sign: str, other: Any) -> bool:
    """True for `value sign other`, such as 3 > 2."""
    if sign == ">":
        return value > other
    if sign == ">=":
        return value >= other
    if sign == "<":
        return value < other
    return value <= other


def same_value(first: Any, second: Any) -> bool:
    """True for values that JSON writes alike: True is not 1, and 1 is not 1.0 but equals it."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return canonical(first) == canonical(second)
    return first == second


def canonical(value: Any) -> str:
    """The same text for the same value, whatever the order of keys."""
    return json.dumps(value, sort_keys=True)


def options_text(options: Sequence[Any]) -> str:
    shown = ", ".join(map(str, options[:10]))
    return f"{shown}, ..." if len(options) > 10 else shown


def range_text(found: Range) -> str:
    """`from 1e-05 to 0.1`."""
    return f"from {found.low:g} to {found.high:g}"


def steps_text(found: Range) -> str:
    return f"{found.low:g} plus whole steps of {found.step:g}"


def product_of(counts: Sequence[int | None]) -> int | None:
    """None where one of them is."""
    total = 1
    for count in counts:
        if count is None:
            return None
        total *= count
    return total
