"""Values of a spec: values from people and libraries, as plain data that every format can hold.

numpy, Path and Enum values are accepted. A value that no config file can hold is refused with its
place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import cast

from tao_sdk.model.error_field import about_field
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.model.unwrapped import unwrap_value

DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Hole:
    """A value that only the job knows: the path of `key`. `given` is the value that was there
    before.

    `whole_word`: if the job has no value either, the placeholder goes with all of its word in a
    command, and with the option before it.
    """

    key: str
    given: str | None
    whole_word: bool = False


Tree = dict[str, "Tree"] | list["Tree"] | str | int | float | bool | Hole | None


def plain_mapping(value: object, name: str) -> dict[str, Tree]:
    """A fresh copy of a mapping as plain data. Raises SpecError with the place of a value that has
    no plain form.
    """
    if not isinstance(value, Mapping):
        raise FieldError(
            name,
            f"{name} is a {type(value).__name__}.",
            "It has to be a mapping of names to values.",
        )
    with about_field(name):
        return plain_dict(cast("Mapping[object, object]", value), name, ())


def plain_data(value: object, name: str) -> object:
    """A mapping or a list as plain data. Anything else stays as it is, and its reader refuses
    it.
    """
    value = unwrap_value(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    with about_field(name):
        return plain(cast("object", value), name, ())


def plain(value: object, place: str, above: tuple[int, ...]) -> Tree:
    value = unwrap_value(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return finite(value, place)
    if isinstance(value, Mapping | list | tuple):
        return branch(cast("Mapping[object, object] | list[object]", value), place, above)
    raise SpecError(
        f"{place} is a {type(value).__name__}: {short(value)}.",
        "No config file can hold it.",
        instead(value),
    )


def finite(value: float, place: str) -> float:
    if math.isfinite(value):
        return float(value)
    raise SpecError(
        f"{place} is {float(value)!r}.",
        "A spec holds finite numbers.",
        "Leave it out, or write a number.",
    )


def branch(
    value: Mapping[object, object] | list[object], place: str, above: tuple[int, ...]
) -> Tree:
    if id(value) in above:
        raise SpecError(
            f"{place} contains itself.", "A spec is a tree.", "Copy the part that is in it twice."
        )
    if len(above) >= DEEPEST:
        raise SpecError(
            f"{place} is nested more than {DEEPEST} levels deep.", "", "Write it flatter."
        )
    if isinstance(value, Mapping):
        return plain_dict(value, place, above)
    above = (*above, id(value))
    return [plain(item, f"{place}[{index}]", above) for index, item in enumerate(value)]


def plain_dict(
    value: Mapping[object, object], place: str, above: tuple[int, ...]
) -> dict[str, Tree]:
    above = (*above, id(value))
    result: dict[str, Tree] = {}
    for given, item in value.items():
        key = unwrap_value(given) if isinstance(given, Enum) else given
        if not isinstance(key, str):
            raise SpecError(
                f"{place} has the key {short(given)}, a {type(given).__name__}.",
                "Keys are strings.",
                f"Write it as a text: '{key}'.",
            )
        if key in result:
            raise SpecError(f"{place} has the key {key!r} twice.", "", "Leave one of them out.")
        result[str.__str__(key)] = plain(item, f"{place}.{key}", above)
    return result


def short(value: object) -> str:
    """The value as an error shows it, in at most 60 characters."""
    text = repr(value)
    if len(text) <= 60:
        return text
    return f"{text[:57]}..."


def instead(value: object) -> str:
    hints: dict[str, str] = {
        "date": "Write it as text: value.isoformat().",
        "datetime": "Write it as text: value.isoformat().",
        "bytes": "Write it as text, or put it in a file of the job (files=).",
        "set": "Write a list: sorted(value).",
        "frozenset": "Write a list: sorted(value).",
        "Decimal": "Write float(value).",
    }
    return hints.get(type(value).__name__, "Write text, numbers, booleans, lists and mappings.")


def walk(tree: Tree, place: str, visit: Callable[[str, Tree], None]) -> None:
    """Visit every value with its place, parents first."""
    visit(place, tree)
    if isinstance(tree, dict):
        for key, item in tree.items():
            walk(item, f"{place}.{key}", visit)
    elif isinstance(tree, list):
        for index, item in enumerate(tree):
            walk(item, f"{place}[{index}]", visit)


def refuse_flat_keys(tree: Mapping[str, Tree]) -> None:
    """Raise FieldError for a dotted key at the top level. It is nearly always a path written as a
    key: no model would find its value.
    """
    for key, value in tree.items():
        if "." in key:
            raise FieldError(
                "specs",
                f"specs has the flat key {key!r}.",
                "A dotted name is a way into nested mappings, not a key; the model would "
                "find nothing there.",
                f"Nest it: {nested_text(key, value)}",
            )


def nested_text(key: str, value: Tree) -> str:
    """`{'train': {'lr': 0.1}}` for the key train.lr."""
    text = "..." if isinstance(value, dict | list) else short(value)
    for part in reversed(key.split(".")):
        text = f"{{{part!r}: {text}}}"
    return text
