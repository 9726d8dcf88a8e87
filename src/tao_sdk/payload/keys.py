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
    """`a.b[0].c` as ["a", "b", 0, "c"]. Raises SpecError for a text that is no such key."""
    way: list[Step] = []
    for part in key.split("."):
        match = PART.fullmatch(part)
        if match is None:
            raise SpecError(
                f"{key!r} is no key of a spec.", "", "Write it like train.checkpoints[0].path."
            )
        way += [match[1], *(int(index) for index in re.findall(r"\d+", match[2]))]
    return way


def joined(way: Sequence[Step]) -> str:
    """The key as people write it."""
    return "".join(map(step_text, way)).removeprefix(".")


def step_text(step: Step) -> str:
    """`[0]` or `.name`."""
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}"


def child(tree: Tree, step: Step) -> Tree:
    """One step further; None when nothing is there."""
    if isinstance(tree, dict) and isinstance(step, str):
        return tree.get(step)
    if isinstance(tree, list) and isinstance(step, int) and step < len(tree):
        return tree[step]
    return None


def lookup(tree: Tree, way: Sequence[Step]) -> Tree:
    """The value at the end of the way; None if there is none."""
    for step in way:
        tree = child(tree, step)
    return tree


def put(tree: Tree, way: Sequence[Step], value: Tree) -> None:
    """Set the value at the end of the way, and make the mappings on the way. Raises SpecError if a
    list or a value is in the way.
    """
    parent = tree
    for step, after in pairwise(way):
        if isinstance(after, str):
            make_mapping(parent, step)
        parent = child(parent, step)
    if not set_child(parent, way[-1], value):
        raise SpecError(
            f"{joined(way)} cannot be set: {joined(way[:-1])} in the spec cannot hold it.",
            "",
            "Set that key to a mapping or a list first.",
        )


def make_mapping(parent: Tree, step: Step) -> None:
    """Put a mapping in the place of a missing value."""
    if isinstance(parent, dict) and isinstance(step, str) and parent.get(step) is None:
        parent[step] = {}


def set_child(parent: Tree, step: Step, value: Tree) -> bool:
    """Set the value one step further. False if the parent cannot hold it."""
    if isinstance(parent, dict) and isinstance(step, str):
        parent[step] = value
        return True
    if isinstance(parent, list) and isinstance(step, int) and step < len(parent):
        parent[step] = value
        return True
    return False
