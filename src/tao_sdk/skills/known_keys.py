"""Known keys: the keys that a bank names for an action's spec if it has no schema. The list is
never whole, so a key that is not in it may be right. A key that is nearly a known one is a mistake.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from tao_sdk.model.fields import FieldError
from tao_sdk.skills.action_reader import PLACEHOLDER
from tao_sdk.skills.item_inputs import INDEX
from tao_sdk.skills.skill import Action, Skill
from tao_sdk.skills.spec_tree import leaf_keys

# The similarity from which a name, and each of its words, counts as a mistyped known name.
LIKE, LIKE_IN_WORDS, LIKE_WORD = 0.9, 0.8, 0.6
WORD = re.compile(r"[^_-]+")
Names = dict[str, Any]  # name -> the names below it


def unknown_keys(skill: Skill, keys: Iterable[str], template: Mapping[str, Any]) -> list[str]:
    """The keys that neither the skill nor the template names. Raises FieldError for one that is
    nearly a known key.
    """
    known: Names = {}
    for key in (*named_keys(skill), *leaf_keys(template)):
        add_key(known, key)
    return [key for key in keys if not is_known(known, key)]


def named_keys(skill: Skill) -> Iterator[str]:
    """Every key of a spec that the skill names, in all its actions."""
    yield from skill.spec_shorthand_keys.values()
    yield from skill.key_defaults
    yield from hardware_names(skill)
    for params in skill.spec_params.values():
        yield from params
    for sources in skill.data_sources.values():
        for key, source in sources.items():
            yield from (key, *(f"{key}.{name}" for name in source.mapping))
    for action in skill.actions.values():
        yield from keys_of_action(action)


def keys_of_action(action: Action) -> Iterator[str]:
    for name in (*action.inputs, *action.outputs, *action.defaults, *action.args):
        yield from (name, name.replace("-", "_"))
    yield from PLACEHOLDER.findall(action.command)


def hardware_names(skill: Skill) -> Iterator[str]:
    """The keys of GPUs and nodes, of each section that may have them."""
    if not skill.gpu_spec_key:
        return
    yield from (skill.gpu_spec_key, skill.node_spec_key or skill.gpu_spec_key)
    for section in (skill.gpu_spec_key.rpartition(".")[0], *skill.actions):
        yield from (f"{section}.{name}" for name in ("num_gpus", "gpu_ids", "num_nodes"))


def add_key(known: Names, key: str) -> None:
    for name in names_of(key):
        known = cast(Names, known.setdefault(name, {}))


def names_of(key: str) -> list[str]:
    """`data`, `train`, `images` for `data.train[0].images`."""
    return INDEX.sub("", key).split(".")


def is_known(known: Names, key: str) -> bool:
    """True for a known key. Raises FieldError for a key that is nearly known."""
    names = names_of(key)
    for number, name in enumerate(names):
        if name in known:
            known = cast(Names, known[name])
            continue
        if near := near_name(name, known):
            meant = ".".join([*names[:number], near, *names[number + 1 :]])
            raise FieldError(key, f"{key} is no key that is known.", "", f"Did you mean {meant}?")
        return False
    return True


def near_name(name: str, known: Iterable[str]) -> str:
    """The known name that was meant; "" if none is near."""
    return next((each for each in known if is_near(name, each)), "")


def is_near(name: str, known: str) -> bool:
    """True if the names are nearly the same. `train_data` and `test_data` are two names: each word
    has to be near.
    """
    ratio = likeness(name, known)
    words, others = WORD.findall(name), WORD.findall(known)
    if ratio < LIKE_IN_WORDS or len(words) != len(others):
        return ratio >= LIKE
    return all(
        likeness(word, other) >= LIKE_WORD for word, other in zip(words, others, strict=True)
    )


def likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()
