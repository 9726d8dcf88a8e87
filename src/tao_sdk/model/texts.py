"""The texts in a tree of mappings and lists, such as a spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from tao_sdk.model.unwrapped import unwrap_value


def texts_in(tree: Any) -> Iterator[str]:
    """Yield every text in a tree of mappings and lists. Each branch is visited once: some trees are
    read before packing has refused one without an end.
    """
    todo, seen = [tree], set[int]()
    while todo:
        each = unwrap_value(todo.pop())
        if isinstance(each, str):
            yield each
        elif isinstance(each, (Mapping, list, tuple)) and id(cast(object, each)) not in seen:
            seen.add(id(cast(object, each)))
            todo += (
                cast("Mapping[Any, Any]", each).values()
                if isinstance(each, Mapping)
                else cast("Sequence[Any]", each)
            )
