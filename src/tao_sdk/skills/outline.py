"""Outlines: what a list of skills needs of a file, without reading the rest into memory.

Not here: what the values mean, and whether they are right (loader.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tao_sdk.client.document import NO_CHARACTER
from tao_sdk.skills.bank_file import read_bank_text

STARTS = frozenset({"MappingStartEvent", "SequenceStartEvent"})
ENDS = frozenset({"MappingEndEvent", "SequenceEndEvent"})


@dataclass
class Level:
    """A mapping or a list that is open."""

    is_mapping: bool
    count: int = 0  # of the keys and values so far


@dataclass
class Outline:
    """By key of the top level: its text, the items of its list, or the keys of its mapping."""

    texts: dict[str, list[str]] = field(default_factory=lambda: {})
    levels: list[Level] = field(default_factory=lambda: [])
    key: str = ""

    def take(self, event: Any) -> None:
        name = type(event).__name__
        if name in STARTS:
            self.add(None)
            self.levels.append(Level(name == "MappingStartEvent"))
        elif name in ENDS:
            self.levels.pop()
        elif name == "ScalarEvent":
            self.add(event.value)
        elif name == "AliasEvent":
            self.add(None)

    def add(self, text: str | None) -> None:
        """Take a value of the top level, or of a list or mapping in it; None is one that has no
        text.
        """
        if len(self.levels) not in (1, 2):
            return
        level = self.levels[-1]
        is_key = level.is_mapping and level.count % 2 == 0
        level.count += 1
        if len(self.levels) == 1 and is_key:
            self.key = text or ""
            self.texts[self.key] = []
        elif text is not None and (len(self.levels) == 1 or is_key or not level.is_mapping):
            self.texts.setdefault(self.key, []).append(text)

    def first(self, key: str) -> str:
        return next(iter(self.texts.get(key, [])), "")


def read_outline(root: Path, path: Path) -> Outline | None:
    """None where the file is not YAML. Raises SkillError where it cannot be read at all."""
    import yaml

    text = read_bank_text(root, path)
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    outline = Outline()
    try:
        events = cast("Iterator[Any]", yaml.parse(text, loader))  # pyright: ignore[reportUnknownMemberType]
        for event in events:
            outline.take(event)
    except (yaml.YAMLError, RecursionError, *NO_CHARACTER):
        return None
    return outline
