"""Spec trees: setting a value at a key such as `a.b[0].c` in a spec that may be empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, cast

from tao_sdk.model.errors import SpecError
from tao_sdk.payload.keys import Step, steps

Tree = dict[str, Any]
UNSET = "???"  # Hydra's mark for a value that must be set


def without_unset(value: Any) -> Any:
    """The same value without UNSET parts: such keys and list items are left out; a lone UNSET
    becomes None.
    """
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {name: without_unset(item) for name, item in items if item != UNSET}
    if isinstance(value, list):
        return [without_unset(item) for item in cast("list[Any]", value) if item != UNSET]
    return None if value == UNSET else value


def put_value(tree: Tree, key: str, value: Any) -> None:
    """Set the value, and make the mappings and list items on the way. Raises SpecError if something
    else is in the way.
    """
    way = steps(key)
    holder: Any = tree
    for step, after in pairwise(way):
        holder = descend(holder, step, after, key)
    set_step(holder, way[-1], value, key)


def descend(holder: Any, step: Step, after: Step, key: str) -> Any:
    """The value one step further. If there is none, a new list or mapping is put there."""
    child: Any = value_at(holder, step)
    if child in (None, ""):
        child = empty_holder(after)
        set_step(holder, step, child, key)
    return child


def empty_holder(step: Step) -> Any:
    """A new list for an index, a new mapping for a name."""
    if isinstance(step, int):
        return []
    return {}


def set_step(holder: Any, step: Step, value: Any, key: str) -> None:
    if isinstance(holder, dict) and isinstance(step, str):
        cast(Tree, holder)[step] = value
    elif (
        isinstance(holder, list)
        and isinstance(step, int)
        and step <= len(cast("list[Any]", holder))
    ):
        cast("list[Any]", holder)[step : step + 1] = [value]
    else:
        raise SpecError(
            f"{key} cannot be set: what is above it in the spec cannot hold it.",
            "",
            "Set the key above it to a mapping or a list, or begin with [0].",
        )


def get_value(tree: Tree, key: str) -> Any:
    """The value at the key; None if there is none."""
    found: Any = tree
    for step in steps(key):
        found = value_at(found, step)
    return found


def value_at(holder: Any, step: Step) -> Any:
    if isinstance(holder, dict):
        return cast("dict[Any, Any]", holder).get(step)
    if isinstance(holder, list) and isinstance(step, int) and step < len(cast("list[Any]", holder)):
        return cast("list[Any]", holder)[step]
    return None


def copied(value: Any) -> Any:
    """The same value, with new mappings and lists."""
    if isinstance(value, Mapping):
        return {name: copied(item) for name, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [copied(item) for item in cast("list[Any]", value)]
    return value


def leaf_keys(tree: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """The key of each value, those of a mapping below as `train.lr`; lists are values."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from leaf_keys(cast("Mapping[str, Any]", value), f"{above}{name}.")
        else:
            yield f"{above}{name}"
