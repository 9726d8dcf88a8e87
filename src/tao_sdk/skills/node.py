"""Nodes: values of a bank's file with their key path, and the mistakes noted while they are read.

A reader takes the values that it can use and notes the others, so that one reading finds all
mistakes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tao_sdk.client.document import Place, Value
from tao_sdk.skills.errors import SkillError

# Control characters and those that turn the direction of a text; a line break and a tab are none.
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
# Keys as payload/keys.py reads them, without wildcards and spaces. What reads it is not imported: a
# list of skills has to be quick.
STEP = r"[^.\[\]*\s]+(?:\[\d+\])*"
SPEC_KEY = re.compile(rf"{STEP}(?:\.{STEP})*")
MOST_MISTAKES = 50  # reported for one file
LONGEST_KEY = 500


@dataclass(frozen=True)
class Node:
    """A value and the key path that leads to it; `place` is where its key stands."""

    value: Value
    key: str
    place: Place

    @classmethod
    def top(cls, value: Value) -> Node:
        return cls(value, "", value.place)

    @property
    def is_empty(self) -> bool:
        return self.value.data is None

    def below(self, name: str) -> str:
        """The key path of a child."""
        return f"{self.key}.{name}" if self.key else name

    def children(self) -> dict[str, Node]:
        """The children of a mapping; empty for anything else."""
        if not isinstance(self.value.data, dict):
            return {}
        keys = self.value.keys
        return {
            name: Node(value, self.below(name), keys.get(name, value.place))
            for name, value in self.value.data.items()
        }

    def items(self) -> list[Node]:
        """The items of a list; empty for anything else."""
        if not isinstance(self.value.data, list):
            return []
        return [
            Node(value, f"{self.key}[{index}]", value.place)
            for index, value in enumerate(self.value.data)
        ]


@dataclass
class Reading:
    """One reading of one file: its errors and its warnings."""

    errors: list[SkillError] = field(default_factory=lambda: [])
    warnings: list[SkillError] = field(default_factory=lambda: [])

    def refuse(self, node: Node, clause: str, next: str, why: str = "") -> None:
        """Note a mistake. `clause` says what is wrong with the value, without its key."""
        self.note(
            self.errors, node.place, node.key, f"{node.key or 'the file'} {clause}", why, next
        )

    def warn(self, node: Node, clause: str, next: str) -> None:
        """Note an odd value that can be used."""
        self.note(self.warnings, node.place, node.key, f"{node.key} {clause}", "", next)

    def note(
        self, noted: list[SkillError], place: Place, key: str, what: str, why: str, next: str
    ) -> None:
        if len(noted) < MOST_MISTAKES:
            noted.append(SkillError(place, what, why, next, key=key))

    def errors_at(self, key: str) -> bool:
        """True if a mistake at this key was noted."""
        return any(error.key == key for error in self.errors)

    def warn_of_unknown(self, node: Node, known: Collection[str]) -> None:
        """Warn of a key that is not read here. It may be of a newer bank, or misspelt."""
        for name, child in node.children().items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                next = (
                    f"Did you mean {near[0]}?"
                    if near
                    else "Remove it, or leave it: it is not read."
                )
                self.note(
                    self.warnings, child.place, child.key, f"unknown key {child.key}.", "", next
                )

    def mapping(self, node: Node | None) -> dict[str, Node]:
        """The children of a mapping; none if it is absent or empty."""
        if node is None or node.is_empty:
            return {}
        if not isinstance(node.value.data, dict):
            self.refuse(
                node, f"is {node.value.shape}; it must be a mapping.", "Write `name: value`."
            )
        return {name: child for name, child in node.children().items() if self.is_key(name, child)}

    def is_key(self, name: str, child: Node) -> bool:
        if name.strip() and len(name) <= LONGEST_KEY and not UNSEEN.search(name):
            return True
        shown = Node(child.value, child.key[:80], child.place)
        self.refuse(shown, "is no name.", f"Use at most {LONGEST_KEY} characters that can be seen.")
        return False

    def list_of(self, node: Node | None) -> list[Node]:
        """The items of a list; none if it is absent or empty."""
        if node is None or node.is_empty:
            return []
        if not isinstance(node.value.data, list):
            self.refuse(
                node, f"is {node.value.shape}; it must be a list.", "Write [first, second]."
            )
        return node.items()

    def text(self, node: Node | None) -> str:
        """A text; "" if it is absent or empty."""
        if node is None or node.is_empty:
            return ""
        if isinstance(node.value.data, (dict, list, bool)):
            is_truth = isinstance(node.value.data, bool)
            next = "Put it in quotes." if is_truth else "Write one value there."
            self.refuse(node, f"is {node.value.shape}; it must be a text.", next)
            return ""
        if unseen := UNSEEN.search(node.value.text):
            code = f"U+{ord(unseen[0]):04X}"
            self.refuse(node, f"holds the character {code}, which cannot be seen.", "Remove it.")
            return ""
        return node.value.text

    def truth_as_text(self, node: Node) -> str:
        """A text; `true` or `false` for a truth value."""
        if isinstance(node.value.data, bool):
            return str(node.value.data).lower()
        return self.text(node)

    def texts(self, node: Node | None) -> tuple[str, ...]:
        return tuple(self.text(item) for item in self.list_of(node))

    def flag(self, node: Node | None) -> bool | None:
        """True or false; None if it is absent or empty."""
        if node is None or node.is_empty:
            return None
        if not isinstance(node.value.data, bool):
            self.refuse(
                node, f"is {node.value.shape}; it must be true or false.", "Write true or false."
            )
            return None
        return node.value.data

    def choice(self, node: Node | None, allowed: Collection[str]) -> str:
        """One of the words; "" if it is absent, empty or another."""
        word = self.text(node)
        if node is None or not word or word in allowed:
            return word
        near = difflib.get_close_matches(word, allowed, n=1)
        next = f"Did you mean {near[0]}?" if near else f"Write one of {', '.join(allowed)}."
        self.refuse(node, f"is {word[:80]!r}; it must be one of {', '.join(allowed)}.", next)
        return ""

    def spec_key(self, node: Node | None) -> str:
        """A text that is a key of a spec, such as train.num_gpus."""
        key = self.text(node)
        if node is None or not key or is_spec_key(key):
            return key
        self.refuse(
            node, f"is {key[:80]!r}, which is no key of a spec.", "Write it like train.num_gpus."
        )
        return ""

    def texts_by_name(self, node: Node | None) -> dict[str, str]:
        return {name: self.text(child) for name, child in self.mapping(node).items()}

    def checked_keys(
        self, node: Node | None, is_right: Callable[[str], bool], example: str
    ) -> dict[str, Node]:
        """The children whose names are keys of the right kind."""
        children = self.mapping(node)
        for name, child in children.items():
            if not is_right(name):
                self.refuse(child, "is no key of a spec.", f"Write it like {example}.")
        return {name: child for name, child in children.items() if is_right(name)}


def is_spec_key(key: str) -> bool:
    """True for `a.b[0].c`."""
    return SPEC_KEY.fullmatch(key) is not None
