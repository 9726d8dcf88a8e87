"""Inputs of list items: a skill declares the inputs of the first item (`data.train[0].images`), and
the spec may have several items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from tao_sdk.skills.skill import Action, Input, Mode
from tao_sdk.skills.spec_tree import Tree, get_value

FIRST = "[0]"
INDEX = re.compile(r"\[\d+\]")


def with_every_item(action: Action, tree: Tree) -> Action:
    """The action with an input of a first item declared for every further item of the spec too."""
    if action.mode is not Mode.CONFIG:
        return action
    inputs: dict[str, Input] = {}
    for key, declared in action.inputs.items():
        for item_key in item_keys(tree, "", key):
            inputs[item_key] = action.inputs.get(item_key) or of_item(declared, item_key)
    return replace(action, inputs=inputs)


def drop_blank_items(action: Action, tree: Tree) -> None:
    """Take out of a template's lists the further items in which nothing is filled in. A template
    shows by them that the list may be longer; a program would read them as datasets.
    """
    for key in action.inputs:
        head, index, _ = key.partition(FIRST)
        items = get_value(tree, head) if index else None
        if isinstance(items, list):
            items[1:] = [item for item in cast("list[Any]", items)[1:] if not is_blank(item)]


def is_blank(value: Any) -> bool:
    """True for a value without any text, number or flag in it."""
    if isinstance(value, dict):
        return all(map(is_blank, cast("dict[Any, Any]", value).values()))
    return value in (None, "", [])


def item_keys(tree: Tree, above: str, rest: str) -> Iterator[str]:
    """The key of each item that the spec has; the key of the first also if there is none."""
    head, index, below = rest.partition(FIRST)
    if not index:
        yield above + rest
        return
    items = get_value(tree, above + head)
    count = len(cast("list[Any]", items)) if isinstance(items, list) else 1
    for number in range(max(count, 1)):
        yield from item_keys(tree, f"{above}{head}[{number}]", below)


def of_item(declared: Input, key: str) -> Input:
    """The declaration for another item, with the annotation of that item."""
    selective = declared.selective
    first, item = item_of(declared.key), item_of(key)
    if selective is not None and first and selective.annotation.startswith(first):
        annotation = item + selective.annotation.removeprefix(first)
        selective = replace(selective, annotation=annotation)
    return replace(declared, key=key, selective=selective)


def item_of(key: str) -> str:
    """`data.train[0]` for `data.train[0].images`; "" if the key is in no list."""
    return key[: key.rfind("]") + 1]


def key_of_first(key: str) -> str:
    """`data.train[0].images` for `data.train[1].images`."""
    return INDEX.sub(FIRST, key)
