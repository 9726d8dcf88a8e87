"""Parameters of a TAO network, from the JSON schema of its action (train.schema.json). Pure.

The schemas have types of their own (`ordered_int`, `list_2`, `subset_list` ...), bounds that may be
the text "inf", and conditions: `math_cond` is `> 0`, `^ 2` (a power of 2), `/ 32` (a multiple of
32) or `> depends_on` (more than the parameter that `depends_on` names).

Not here: the `search:` block (search_block.py), and reading the file. Every mistake is a SpaceError
that names the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tao_automl.near import near_name
from tao_automl.space.mistake import SpaceError, space_mistake
from tao_automl.space.parameter import (
    Choice,
    Limit,
    Optional,
    Parameter,
    Part,
    Range,
    Several,
    Subset,
    When,
    holds,
    same_value,
)
from tao_automl.space.search_block import is_wide, kept_weights, read_weights, weighted
from tao_automl.space.space import Space, make_space
from tao_sdk.model.metric_names import words_of

Json = Mapping[str, Any]

INTS = ("int", "integer", "ordered_int")
FLOATS = ("float", "number")
BOOLS = ("bool", "boolean")
LISTS = {"list_1_backbone": 1, "list_2": 2, "list_3": 3}
# Blocks of a spec that belong to one action; those of the others are not searched.
ACTIONS = (
    "train", "evaluate", "inference", "export", "gen_trt_engine", "quantize", "prune", "retrain",
    "distill", "dataset_convert", "generate",
)  # fmt: skip
INF_TIMES_FLOAT, INF_TIMES_INT = 10, 2  # an endless range ends at so many times the default
LOG_NAMES = frozenset({"lr", "rate", "decay", "eps", "epsilon"})  # words of keys: small, by factors
LOG_DECADES = 100  # below its default a range begins that is searched by factors and has no start
CUSTOM_WORDS = (
    "valid_min", "valid_max", "valid_options", "option_weights", "disable_list", "value_type",
    "depends_on",
)  # fmt: skip
CONDITION = re.compile(r"(>=|<=|>|<|\^|/)\s*([^\s,&]+)")


@dataclass(frozen=True)
class SchemaRequest:
    """What is asked of a schema. Empty `keys`: its automl_default_parameters, else every parameter
    with `automl_enabled`.
    """

    schema: Json
    action: str = "train"
    keys: Sequence[str] = ()
    custom_ranges: Mapping[str, Json] = field(default_factory=dict[str, Json])
    spec: Json = field(default_factory=dict[str, Any])  # dotted: values that stand in the spec
    override_disabled: bool = False


def read_schema_space(request: SchemaRequest) -> Space:
    """The space that a schema describes. Raises SpaceError."""
    known = dict(properties_of(request.schema, ""))
    keys = searched_keys(request, known)
    custom = checked_ranges(request, known, keys)
    reader = SchemaReader(request, known, frozenset(keys), custom)
    return make_space([reader.parameter(key) for key in keys])


def properties_of(schema: Json, above: str) -> Iterator[tuple[str, Json]]:
    """Every property of a schema that has no properties of its own, by its dotted key."""
    for name, inner in mapping_of(schema.get("properties")).items():
        if not isinstance(inner, Mapping):
            continue
        key = f"{above}.{name}" if above else name
        entry = flattened(cast(Json, inner))
        if mapping_of(entry.get("properties")):
            yield from properties_of(entry, key)
        else:
            yield key, entry


def mapping_of(value: Any) -> Json:
    return cast(Json, value) if isinstance(value, Mapping) else {}


def flattened(entry: Json) -> Json:
    """A property with `anyOf` as one: of its first alternative that is not null. Where each has an
    enum, the options of all.
    """
    alternatives = [
        mapping_of(one) for one in entry.get("anyOf", ()) if mapping_of(one).get("type") != "null"
    ]
    if not alternatives:
        return entry
    merged = {**entry, **alternatives[0]}
    if all(isinstance(one.get("enum"), list) for one in alternatives):
        merged["enum"] = [option for one in alternatives for option in one["enum"]]
    return merged


def searched_keys(request: SchemaRequest, known: Mapping[str, Json]) -> list[str]:
    """The keys to search, checked. Raises SpaceError for one that is unknown, disabled or of
    another action.
    """
    disabled = set(request.schema.get("automl_disabled_parameters", ()))
    if request.keys:
        for key in request.keys:
            check_key(request, key, known, disabled)
        return list(dict.fromkeys(request.keys))
    listed = [key for key in request.schema.get("automl_default_parameters", ()) if key in known]
    enabled = [key for key, entry in known.items() if entry.get("automl_enabled") is True]
    keys = [
        key
        for key in dict.fromkeys(listed or enabled)
        if key not in disabled and is_of_action(key, request.action)
    ]
    if not keys:
        what = "the schema names no parameter that is searched unasked."
        raise SpaceError(what, "", "Name some: automl_hyperparameters: [train.optim.lr]")
    return keys


def check_key(
    request: SchemaRequest, key: str, known: Mapping[str, Json], disabled: set[str]
) -> None:
    if key not in known:
        raise space_mistake(key, "is no parameter of the schema", near_name(key, known))
    if not is_of_action(key, request.action):
        raise space_mistake(key, f"is not of the action {request.action}")
    if key in disabled and not request.override_disabled:
        next = "Set override_automl_disabled_params: true to search it all the same."
        raise space_mistake(key, "is disabled for AutoML by the schema", next)


def is_of_action(key: str, action: str) -> bool:
    first = key.partition(".")[0]
    return first == action or first not in ACTIONS


def checked_ranges(
    request: SchemaRequest, known: Mapping[str, Json], keys: Sequence[str]
) -> Mapping[str, Json]:
    for key, entry in request.custom_ranges.items():
        if key not in known:
            raise space_mistake(key, "is no parameter of the schema", near_name(key, known))
        if key not in keys:
            next = "Add it to automl_hyperparameters."
            raise space_mistake(key, "has a range of its own and is not searched", next)
        for word in entry:
            if word not in CUSTOM_WORDS:
                next = near_name(word, CUSTOM_WORDS)
                raise space_mistake(key, f"has the unknown word {word!r} in its range", next)
    return request.custom_ranges


@dataclass(frozen=True)
class Condition:
    """What `math_cond` says: a sign, and a number or the key of another parameter."""

    sign: str  # > >= < <= ^ /
    number: float | None = None
    key: str = ""


@dataclass(frozen=True)
class SchemaReader:
    """Makes the parameters of one schema."""

    request: SchemaRequest
    known: Mapping[str, Json]
    keys: frozenset[str]
    custom: Mapping[str, Json]

    def parameter(self, key: str) -> Parameter:
        """The parameter of a key. Raises SpaceError where it cannot be searched."""
        entry = {**self.known[key], **self.custom_entry(key)}
        kind = str(entry.get("type", ""))
        default = self.default(key, entry)
        when = self.when(key, entry)
        return replace(self.typed(key, entry, kind, default), default=default, when=when)

    def custom_entry(self, key: str) -> Json:
        """The custom range of a key, in the words of the schema."""
        custom = self.custom.get(key, {})
        words = {
            "valid_min": "minimum",
            "valid_max": "maximum",
            "valid_options": "enum",
            "option_weights": "option_weights",
            "value_type": "type",
            "depends_on": "depends_on",
            "disable_list": "disable_list",
        }
        found = {words[word]: value for word, value in custom.items() if value is not None}
        if "enum" in found and "option_weights" not in found:
            found["option_weights"] = None
        if {"minimum", "maximum"} & found.keys() and "enum" not in found:
            found["enum"] = None
        return found

    def default(self, key: str, entry: Json) -> Any:
        """What stands in the spec, else what the schema says."""
        if key in self.request.spec:
            return self.request.spec[key]
        return entry.get("default")

    def typed(self, key: str, entry: Json, kind: str, default: Any) -> Parameter:
        if kind == "subset_list":
            return Subset(key, tuple(self.options(key, entry)))
        if kind == "optional_list":
            return self.optional_list(key, entry, default)
        if kind in LISTS and not entry.get("enum"):
            return self.list_of(key, entry, default, LISTS[kind])
        if kind in BOOLS:
            return Choice(key, (False, True), tuple(self.weights(key, entry, [False, True])))
        if entry.get("enum"):
            return self.choice(key, entry, kind)
        if kind in INTS or kind in FLOATS:
            return self.number(key, entry, kind in INTS, default)
        next = f"Give its options: custom_param_ranges: {{{key}: {{valid_options: [...]}}}}"
        raise space_mistake(key, f"is of type {kind or 'unknown'} and has no options", next)

    def options(self, key: str, entry: Json) -> list[Any]:
        options = entry.get("enum")
        if not isinstance(options, list) or not options:
            raise space_mistake(key, "has no options (enum) to choose from")
        return list(cast("Sequence[Any]", options))

    def weights(self, key: str, entry: Json, options: Sequence[Any]) -> list[float]:
        return kept_weights(read_weights(key, options, entry.get("option_weights")))

    def choice(self, key: str, entry: Json, kind: str) -> Choice:
        options = without_disabled(self.options(key, entry), entry.get("disable_list"))
        weights = read_weights(key, options, entry.get("option_weights"))
        kept, weights = weighted(options, weights), kept_weights(weights)
        numeric = all(isinstance(one, (int, float)) for one in kept)
        limits = tuple(self.limits(key, entry)) if numeric else ()
        return Choice(key, tuple(kept), tuple(weights), kind == "ordered_int", limits=limits)

    def optional_list(self, key: str, entry: Json, default: Any) -> Parameter:
        if entry.get("disable_list") is True:
            return self.number(key, entry, False, number_in(default))
        if entry.get("enum"):
            return Optional(key, self.choice(key, entry, "optional_list"))
        length = lengths_of(default, entry.get("minimum"), entry.get("maximum"))
        if length is None:
            raise space_mistake(key, "is a list of unknown length", "Give lists as its bounds.")
        return Optional(key, self.list_of(key, entry, default, length))

    def list_of(self, key: str, entry: Json, default: Any, length: int) -> Several:
        """A list of numbers: each element has its bounds where these are lists, else the same."""
        parts: list[Part] = []
        for place in range(length):
            element = {
                **entry,
                "minimum": element_of(entry.get("minimum"), place),
                "maximum": element_of(entry.get("maximum"), place),
            }
            own = element_of(default, place)
            parts.append(self.number(key, element, are_whole(default), own))
        return Several(key, tuple(parts))

    def number(self, key: str, entry: Json, is_int: bool, default: Any) -> Part:
        conditions = list(self.conditions(key, entry))
        ends = self.ends(key, entry, is_int, default, conditions)
        for condition in conditions:
            if condition.sign == "^":
                return self.powers(key, condition, ends, is_int)
        limits = tuple(self.limits(key, entry))
        if not ends[0] < ends[1]:
            raise space_mistake(key, f"has nothing to search from {ends[0]:g} to {ends[1]:g}")
        for condition in conditions:
            if condition.sign == "/":
                return self.multiples(key, condition, ends, is_int, limits)
        step = 1 if is_int else None
        return Range(key, *ends, is_int, is_wide(*ends), step, limits=limits)

    def ends(
        self, key: str, entry: Json, is_int: bool, default: Any, conditions: Sequence[Condition]
    ) -> tuple[float, float]:
        """The bounds as numbers: "inf" and what is missing follow from the default, and a number in
        a condition cuts them.
        """
        size = number_in(default)
        high = self.high_end(key, entry.get("maximum"), is_int, size)
        low = self.low_end(key, entry.get("minimum"), is_int, size)
        if low == 0 and not is_int and is_by_factors(key) and size:
            low = size / LOG_DECADES
        for condition in conditions:
            if condition.number is not None and condition.sign in ("<", ">", "<=", ">="):
                low, high = cut_ends(low, high, condition, is_int, size)
        if is_int:
            return math.ceil(low), math.floor(high)
        return low, high

    def high_end(self, key: str, bound: Any, is_int: bool, size: float) -> float:
        number = number_or_none(bound)
        if number is not None and number != math.inf:
            return number
        if size <= 0:
            next = f"Give one: custom_param_ranges: {{{key}: {{valid_max: ...}}}}"
            raise space_mistake(key, "has no maximum, and no default to guess it from", next)
        return size * (INF_TIMES_INT if is_int else INF_TIMES_FLOAT)

    def low_end(self, key: str, bound: Any, is_int: bool, size: float) -> float:
        number = number_or_none(bound)
        if number is not None and number != -math.inf:
            return number
        if size <= 0:
            next = f"Give one: custom_param_ranges: {{{key}: {{valid_min: ...}}}}"
            raise space_mistake(key, "has no minimum, and no default to guess it from", next)
        return max(1, size // INF_TIMES_INT) if is_int else size / INF_TIMES_FLOAT

    def powers(
        self, key: str, condition: Condition, ends: tuple[float, float], is_int: bool
    ) -> Choice:
        """`^ 2`: every power of 2 within the bounds, in their order."""
        base = condition.number or 0
        if base <= 1:
            raise space_mistake(key, f"has the condition ^ {base:g}, which has no powers")
        first = math.ceil(math.log(max(ends[0], 1 if is_int else ends[0], 1e-12), base) - 1e-9)
        last = math.floor(math.log(max(ends[1], 1e-12), base) + 1e-9)
        found = [base**power for power in range(first, last + 1)]
        if len(found) < 2:
            what = f"has fewer than two powers of {base:g} from {ends[0]:g} to {ends[1]:g}"
            raise space_mistake(key, what)
        return Choice(key, tuple(int(one) if is_int else float(one) for one in found), (), True)

    def multiples(
        self,
        key: str,
        condition: Condition,
        ends: tuple[float, float],
        is_int: bool,
        limits: tuple[Limit, ...],
    ) -> Range:
        """`/ 32`: every multiple of 32 within the bounds."""
        unit = condition.number or 0
        if unit <= 0:
            raise space_mistake(key, f"has the condition / {unit:g}, which has no multiples")
        low = math.ceil(ends[0] / unit - 1e-9) * unit
        high = math.floor(ends[1] / unit + 1e-9) * unit
        if not low < high:
            what = f"has fewer than two multiples of {unit:g} from {ends[0]:g} to {ends[1]:g}"
            raise space_mistake(key, what)
        step = int(unit) if is_int else unit
        return Range(key, low, high, is_int, is_wide(low, high), step, limits=limits)

    def conditions(self, key: str, entry: Json) -> Iterator[Condition]:
        """The conditions of `math_cond`; bounds by a parameter that is not searched are numbers."""
        text = entry.get("math_cond")
        if not isinstance(text, str) or not text.strip():
            return
        found = CONDITION.findall(text)
        if not found:
            raise space_mistake(key, f"has the condition {text!r}, which nobody understands")
        for sign, operand in found:
            yield self.condition(key, entry, sign, operand)

    def condition(self, key: str, entry: Json, sign: str, operand: str) -> Condition:
        number = number_or_none(operand)
        if number is not None:
            return Condition(sign, number)
        other = self.other(
            key, str(entry.get("depends_on")) if operand == "depends_on" else operand
        )
        if other in self.keys:
            return Condition(sign, key=other)
        fixed = self.default(other, self.known[other])
        number = number_or_none(fixed)
        if number is None:
            what = f"is bounded by {other}, which is {fixed!r} and no number"
            raise space_mistake(key, what)
        return Condition(sign, number)

    def limits(self, key: str, entry: Json) -> Iterator[Limit]:
        for condition in self.conditions(key, entry):
            if condition.key:
                yield Limit(condition.sign, condition.key)

    def other(self, key: str, name: str) -> str:
        """The key of another parameter: in full, of a neighbour, or by its end where that is one's
        alone.
        """
        neighbour = f"{key.rpartition('.')[0]}.{name}".lstrip(".")
        for candidate in (name, neighbour):
            if candidate in self.known:
                return candidate
        ending = [candidate for candidate in self.known if candidate.endswith(f".{name}")]
        if len(ending) == 1:
            return ending[0]
        what = f"depends on {name}, which the schema does not have"
        raise space_mistake(key, what, near_name(name, self.known))

    def when(self, key: str, entry: Json) -> When:
        """Conditions that decide whether the parameter counts at all. `depends_on` is one where it
        is a mapping from keys to values, or names a switch; otherwise it belongs to `math_cond`.
        """
        given = entry.get("depends_on")
        if isinstance(given, Mapping):
            conditions = cast(Json, given).items()
        elif isinstance(given, str) and given and "depends_on" not in str(entry.get("math_cond")):
            other = self.other(key, given)
            is_switch = self.known[other].get("type") in BOOLS
            conditions = [(other, True)] if is_switch else []
        else:
            conditions = []
        found: list[tuple[str, tuple[Any, ...]]] = []
        for name, value in conditions:
            allowed = tuple(cast("list[Any]", value)) if isinstance(value, list) else (value,)
            found.append((self.other(key, str(name)), allowed))
        return tuple(self.open_conditions(key, found))

    def open_conditions(self, key: str, found: list[tuple[str, tuple[Any, ...]]]) -> Iterator[Any]:
        """Those on parameters that are searched; the others are decided by the spec now."""
        for other, allowed in found:
            if other in self.keys:
                yield other, allowed
                continue
            value = self.default(other, self.known[other])
            if not any(same_value(value, one) for one in allowed):
                shown = " or ".join(map(str, allowed))
                what = f"counts only where {other} is {shown}; it is {value!r}"
                raise space_mistake(key, what, f"Search {other} as well, or set it.")


def is_by_factors(key: str) -> bool:
    """True for learning rates, decays and the like, by the words of the last part of the key."""
    return bool(words_of(key.rpartition(".")[2]) & LOG_NAMES)


def cut_ends(
    low: float, high: float, condition: Condition, is_int: bool, size: float
) -> tuple[float, float]:
    """The bounds with a number as a condition. Above 0 a range begins a hundredth of its default,
    or a ten-thousandth of its end.
    """
    number = condition.number or 0.0
    if condition.sign in (">", ">=") and not holds(low, condition.sign, number):
        return above(number, high, condition.sign == ">", is_int, size), high
    if condition.sign in ("<", "<=") and not holds(high, condition.sign, number):
        if is_int and condition.sign == "<":
            return low, math.ceil(number) - 1
        return low, number if condition.sign == "<=" else number - (number - low) * 1e-3
    return low, high


def above(number: float, high: float, is_strict: bool, is_int: bool, size: float) -> float:
    if not is_strict:
        return number
    if is_int:
        return math.floor(number) + 1
    if number == 0:
        return size / LOG_DECADES if size > 0 else high / LOG_DECADES**2
    return number + (high - number) * 1e-3


def without_disabled(options: list[Any], disabled: Any) -> list[Any]:
    if not isinstance(disabled, list):
        return options
    out = cast("list[Any]", disabled)
    return [one for one in options if not any(same_value(one, other) for other in out)]


def number_or_none(value: Any) -> float | None:
    """A number, also as a text such as "inf"; None where it is none. A whole number stays one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, int):
        return value
    try:
        found = float(value)
    except ValueError:
        return None
    return None if math.isnan(found) else found


def number_in(value: Any) -> float:
    """A default as a number; 0.0 where it is none."""
    return number_or_none(element_of(value, 0)) or 0.0


def element_of(value: Any, place: int) -> Any:
    """An element of a list; the last one where it is shorter; what is no list, as it is."""
    if not isinstance(value, (list, tuple)):
        return value
    elements = cast("Sequence[Any]", value)
    if not elements:
        return None
    return elements[min(place, len(elements) - 1)]


def are_whole(value: Any) -> bool:
    if not isinstance(value, (list, tuple)):
        return False
    elements = cast("Sequence[Any]", value)
    return bool(elements) and all(
        isinstance(one, int) and not isinstance(one, bool) for one in elements
    )


def lengths_of(*values: Any) -> int | None:
    """The length of the first of them that is a list."""
    for value in values:
        if isinstance(value, (list, tuple)) and value:
            return len(cast("Sequence[Any]", value))
    return None
