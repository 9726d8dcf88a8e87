"""Keys of a spec: `a.b[0].c` is a way into nested mappings and lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from tao_sdk.model.errors import SpecError
from tao_sdk.payload.values import Tree

Step = str | int
PART = re.compile(r"([^.\[\]]+)((?:\[\d+\])*)")


def steps(key: str) -> list[Step]:
    """`a.b[0].c` as ["a", "b", 0, "c"]. Raises SpecError for what is no such key."""
    way: list[Step] = []
    for part in key.split("."):
        match = PART.fullmatch(part)
        if match is None:
            raise SpecError(f"{key!r} is no key of a spec.", "A key reads like train.checkpoints[0].path.")
        way += [match[1], *(int(index) for index in re.findall(r"\d+", match[2]))]
    return way


def joined(way: Sequence[Step]) -> str:
    """The key as people write it."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in way).removeprefix(".")


def lookup(tree: Tree, way: Sequence[Step]) -> Tree:
    """What lies there; None when nothing does."""
    for step in way:
        if not holds(tree, step):
            return None
        tree = tree[step]  # type: ignore[index,call-overload]  # holds() has looked
    return tree


def holds(tree: Tree, step: Step) -> bool:
    if isinstance(step, int):
        return isinstance(tree, list) and step < len(tree)
    return isinstance(tree, dict) and step in tree


def put(tree: Tree, way: Sequence[Step], value: Tree) -> None:
    """Set what lies there, making the mappings on the way. Raises SpecError when a list or a value is in the way."""
    for done, (step, after) in enumerate(zip(way, [*way[1:], ""], strict=True)):
        last = done == len(way) - 1
        if isinstance(tree, dict) and isinstance(step, str):
            empty = not last and tree.get(step) is None and isinstance(after, str)
            tree[step] = value if last else {} if empty else tree.get(step)
        elif last and holds(tree, step):
            cast("list[Tree]", tree)[cast("int", step)] = value
        elif not holds(tree, step):
            raise SpecError(f"{joined(way)} cannot be set: there is no {joined(way[: done + 1])} in the spec.")
        tree = tree[step]  # type: ignore[index,call-overload]
