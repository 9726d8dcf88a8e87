"""Keys of a spec: `a.b[0].c` is a way into nested mappings and lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

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
            raise SpecError(
                f"{key!r} is no key of a spec.", "A key reads like train.checkpoints[0].path."
            )
        way += [match[1], *(int(index) for index in re.findall(r"\d+", match[2]))]
    return way


def joined(way: Sequence[Step]) -> str:
    """The key as people write it."""
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in way
    ).removeprefix(".")


def child(tree: Tree, step: Step) -> Tree:
    """One step further; None when nothing is there."""
    if isinstance(tree, dict) and isinstance(step, str):
        return tree.get(step)
    if isinstance(tree, list) and isinstance(step, int) and step < len(tree):
        return tree[step]
    return None


def lookup(tree: Tree, way: Sequence[Step]) -> Tree:
    """What lies there; None when nothing does."""
    for step in way:
        tree = child(tree, step)
    return tree


def put(tree: Tree, way: Sequence[Step], value: Tree) -> None:
    """Set what lies there, making the mappings on the way. Raises SpecError when a list or a value
    is in the way.
    """
    parent, last = tree, way[-1]
    for step, after in pairwise(way):
        if (
            isinstance(parent, dict)
            and isinstance(step, str)
            and isinstance(after, str)
            and parent.get(step) is None
        ):
            parent[step] = {}
        parent = child(parent, step)
    # two branches, as each knows its types
    if isinstance(parent, dict) and isinstance(last, str):  # noqa: SIM114
        parent[last] = value
    elif isinstance(parent, list) and isinstance(last, int) and last < len(parent):
        parent[last] = value
    else:
        raise SpecError(
            f"{joined(way)} cannot be set: {joined(way[:-1])} in the spec cannot hold it."
        )
