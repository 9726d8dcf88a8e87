"""Parameters as a person writes them, in the `search:` block of a job file. Pure.

    parameters:
      train.learning_rate: {min: 1e-5, max: 0.1}          # a key; log from two decades on
      "{layers}": {min: 2, max: 8}                        # a placeholder of the command
      env.OPTIMIZER: [adam, sgd]                          # a variable of the environment
      train.momentum: {min: 0.0, max: 0.99, when: {env.OPTIMIZER: sgd}}
      train.batch_size: {choices: [16, 32, 64], weights: [2, 1, 1], ordered: true, default: 32}

Not here: the schemas of TAO (train_schema.py). Every mistake is a SpaceError that names the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tao_automl.near import near_name
from tao_automl.space.mistake import space_mistake
from tao_automl.space.parameter import Choice, Parameter, Range, Unsuitable, When, same_value
from tao_automl.space.space import Space, make_space

TWO_DECADES = 100  # from this ratio on a range is searched on a log scale
RANGE_WORDS = ("min", "max", "log", "step", "type", "default", "when")
CHOICE_WORDS = ("choices", "weights", "ordered", "default", "when")
TYPES = ("int", "float")
KEY = re.compile(r"[^\s{}]+|\{[A-Za-z_][\w-]*\}")
ENVIRONMENT_KEY = re.compile(r"env\.[A-Za-z_]\w*")


def read_parameters(given: Mapping[str, Any]) -> Space:
    """The space of a mapping from keys to ranges or choices. Raises SpaceError."""
    if not isinstance(cast(Any, given), Mapping):
        next = "Write train.lr: {min: 0.001, max: 0.1}."
        raise space_mistake("parameters", f"is {given!r}; it must be a mapping", next)
    return make_space([read_parameter(str(key), value) for key, value in given.items()])


def read_parameter(key: str, given: Any) -> Parameter:
    check_key(key)
    if isinstance(given, (list, tuple)):
        return read_choice(key, {"choices": given})
    if not isinstance(given, Mapping):
        what = f"is {given!r}; it must be a range or a list of choices"
        raise space_mistake(key, what, "Write {min: 0.001, max: 0.1}, or [0.001, 0.01].")
    entry = cast("Mapping[str, Any]", given)
    if "choices" in entry:
        check_words(key, entry, CHOICE_WORDS)
        return read_choice(key, entry)
    check_words(key, entry, RANGE_WORDS)
    return read_range(key, entry)


def check_key(key: str) -> None:
    if not KEY.fullmatch(key):
        next = "Write a key of the spec, {name} for a placeholder of the command, or env.NAME."
        raise space_mistake(key or "''", "is no key that can be searched", next)
    if key.startswith("env.") and not ENVIRONMENT_KEY.fullmatch(key):
        raise space_mistake(key, "is no name of an environment variable", "Write env.NAME.")


def check_words(key: str, entry: Mapping[str, Any], known: Sequence[str]) -> None:
    for word in entry:
        if word not in known:
            all_words = dict.fromkeys([*known, *RANGE_WORDS, *CHOICE_WORDS])
            raise space_mistake(key, f"has the unknown word {word!r}", near_name(word, all_words))


def read_range(key: str, entry: Mapping[str, Any]) -> Range:
    low, high = bound(key, entry, "min"), bound(key, entry, "max")
    step = number_of(key, "step", entry["step"]) if entry.get("step") is not None else None
    is_int = reads_whole(key, entry, [low, high, step])
    check_bounds(key, low, high, step)
    if is_int:
        step = step or 1
    is_log = read_log(key, entry, low, high)
    found = Range(key, low, high, is_int, is_log, step, when=read_when(key, entry))
    return with_default(found, entry)


def bound(key: str, entry: Mapping[str, Any], word: str) -> float:
    if entry.get(word) is None:
        raise space_mistake(key, f"has no {word}", "Write {min: 0.001, max: 0.1}.")
    return number_of(key, word, entry[word])


def number_of(key: str, word: str, value: Any) -> float:
    """A finite number, also as a text such as 1e-4, which YAML takes for one."""
    try:
        found = value if isinstance(value, (int, float)) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if isinstance(value, bool) or not math.isfinite(found):
        raise space_mistake(key, f"has {word} {value!r}; it must be a number")
    return found


def reads_whole(key: str, entry: Mapping[str, Any], numbers: Sequence[float | None]) -> bool:
    """True for whole numbers: as `type` says, else where all bounds are written so."""
    wanted = entry.get("type")
    if wanted is not None and wanted not in TYPES:
        next = near_name(str(wanted), TYPES)
        raise space_mistake(key, f"has type {wanted!r}; it must be int or float", next)
    are_whole = all(number is None or isinstance(number, int) for number in numbers)
    if wanted == "int" and not all(number is None or number == int(number) for number in numbers):
        raise space_mistake(key, "is of type int; its bounds and step must be whole numbers")
    return are_whole if wanted is None else wanted == "int"


def check_bounds(key: str, low: float, high: float, step: float | None) -> None:
    if low > high:
        raise space_mistake(key, f"has min {low:g} above max {high:g}", "Exchange them.")
    if low == high:
        next = "Leave it out, and write the value into the spec."
        raise space_mistake(key, f"has one value, {low:g}", next)
    if step is None:
        return
    if step <= 0:
        raise space_mistake(key, f"has step {step:g}; it must be above 0")
    cells = (high - low) / step
    last = low + math.floor(cells + 1e-9) * step
    if not math.isclose(last, high, rel_tol=1e-9):
        what = f"never reaches its max {high:g} in steps of {step:g}: the last value is {last:g}"
        raise space_mistake(key, what, f"Write max: {last:g}.")


def read_log(key: str, entry: Mapping[str, Any], low: float, high: float) -> bool:
    wanted = entry.get("log")
    if wanted is None:
        return is_wide(low, high)
    if not isinstance(wanted, bool):
        raise space_mistake(key, f"has log {wanted!r}; it must be true or false")
    if wanted and low <= 0:
        next = f"Write a min above 0, such as {high / 1e4:g}, or log: false."
        raise space_mistake(key, f"has min {low:g}, which a log scale never reaches", next)
    return wanted


def is_wide(low: float, high: float) -> bool:
    """True from two decades on."""
    return low > 0 and high / low >= TWO_DECADES * (1 - 1e-9)


def read_choice(key: str, entry: Mapping[str, Any]) -> Choice:
    options = listed(key, "choices", entry["choices"])
    check_options(key, options)
    weights = read_weights(key, options, entry.get("weights"))
    ordered = entry.get("ordered", False)
    if not isinstance(ordered, bool):
        raise space_mistake(key, f"has ordered {ordered!r}; it must be true or false")
    kept = weighted(options, weights)
    when = read_when(key, entry)
    found = Choice(key, tuple(kept), tuple(kept_weights(weights)), ordered, when=when)
    return with_default(found, entry)


def listed(key: str, word: str, value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)) or not value:
        raise space_mistake(key, f"has {word} {value!r}; it must be a list, and not empty")
    return list(cast("Sequence[Any]", value))


def check_options(key: str, options: Sequence[Any]) -> None:
    for place, option in enumerate(options):
        if isinstance(option, float) and not math.isfinite(option):
            raise space_mistake(key, f"has the choice {option}, which is no number")
        if any(same_value(option, other) for other in options[:place]):
            raise space_mistake(key, f"has the choice {option!r} twice")
    if len(options) == 1:
        next = "Leave it out, and write the value into the spec."
        raise space_mistake(key, f"has one choice, {options[0]!r}", next)


def read_weights(key: str, options: Sequence[Any], given: Any) -> list[float]:
    """A weight for each option; empty where all are alike."""
    if given is None:
        return []
    weights = [number_of(key, "a weight of", each) for each in listed(key, "weights", given)]
    if len(weights) != len(options):
        raise space_mistake(key, f"has {len(options)} choices and {len(weights)} weights")
    if min(weights) < 0 or max(weights) == 0:
        raise space_mistake(key, "has weights that are not from 0 on, or all 0")
    return weights


def weighted(options: Sequence[Any], weights: Sequence[float]) -> list[Any]:
    """The options that can ever be chosen: a weight of 0 is never."""
    if not weights:
        return list(options)
    return [option for option, weight in zip(options, weights, strict=True) if weight]


def kept_weights(weights: Sequence[float]) -> list[float]:
    return [weight for weight in weights if weight]


def read_when(key: str, entry: Mapping[str, Any]) -> When:
    """`{optimizer: sgd}` or `{optimizer: [sgd, adam], layers: 2}`: all have to hold."""
    given = entry.get("when")
    if given is None:
        return ()
    if not isinstance(given, Mapping) or not given:
        next = "Write when: {other.key: value}."
        raise space_mistake(key, f"has when {given!r}; it must be a mapping", next)
    conditions = cast("Mapping[str, Any]", given)
    return tuple((str(other), values_of(value)) for other, value in conditions.items())


def values_of(value: Any) -> tuple[Any, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(cast("Sequence[Any]", value))
    return (value,)


def with_default(parameter: Range | Choice, entry: Mapping[str, Any]) -> Any:
    """The parameter with its default, which has to be one of its values."""
    default = entry.get("default")
    if default is None:
        return parameter
    if isinstance(parameter, Range) and isinstance(default, str):
        default = number_of(parameter.key, "default", default)
    try:
        default = parameter.check(default, {})
    except Unsuitable as clause:
        raise space_mistake(parameter.key, f"has a default that {clause}") from None
    return type(parameter)(**{**vars(parameter), "default": default})
