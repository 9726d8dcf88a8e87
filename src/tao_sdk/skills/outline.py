"""Outlines: the parts of a file that a list of skills needs, without reading the rest into memory.

Not here: what the values mean, and if they are right (loader.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tao_sdk.client.document import NO_CHARACTER
from tao_sdk.skills.bank_file import read_bank_text

# The keys that a list of skills shows: the rest of a file, most of it, is not parsed.
SHOWN = frozenset({"type", "name", "network_arch", "aliases", "actions", "container_image"})
TOP_KEY = re.compile(r"([A-Za-z_]\w*):(?:\s|$)")
INDENT = re.compile(r" +")
STARTS = frozenset({"MappingStartEvent", "SequenceStartEvent"})
ENDS = frozenset({"MappingEndEvent", "SequenceEndEvent"})


@dataclass
class Level:
    """A mapping or a list that is open."""

    is_mapping: bool
    count: int = 0  # keys and values so far


@dataclass
class Outline:
    """By key of the top level: its text, the items of its list, or the keys of its mapping."""

    texts: dict[str, list[str]] = field(default_factory=lambda: {})
    levels: list[Level] = field(default_factory=lambda: [])
    key: str = ""
    is_mapping: bool = False  # the whole file

    def take(self, event: Any) -> None:
        name = type(event).__name__
        if name in STARTS:
            self.add(None)
            is_mapping = name == "MappingStartEvent"
            if not self.levels:
                self.is_mapping = is_mapping
            self.levels.append(Level(is_mapping))
        elif name in ENDS:
            self.levels.pop()
        elif name == "ScalarEvent":
            self.add(event.value)
        elif name == "AliasEvent":
            self.add(None)

    def add(self, text: str | None) -> None:
        """Add a value of the top level, or of a list or mapping in it. None is a value without a
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
    """Read the outline. None if the file is no mapping in YAML. Raises SkillError if it cannot be
    read at all.
    """
    text = read_bank_text(root, path)
    shown = shown_part(text)
    outline = parsed_outline(shown) if shown else None
    return outline or parsed_outline(text)


def parsed_outline(text: str) -> Outline | None:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    outline = Outline()
    try:
        events = cast("Iterator[Any]", yaml.parse(text, loader))  # pyright: ignore[reportUnknownMemberType]
        for event in events:
            outline.take(event)
    except (yaml.YAMLError, RecursionError, *NO_CHARACTER):
        return None
    return outline if outline.is_mapping else None


def shown_part(text: str) -> str:
    """The lines of the SHOWN keys, without lines deeper than the keys below them; "" if the file is
    not written in plain blocks.
    """
    lines: list[str] = []
    deepest: int | None = None  # spaces before the keys of this block; None where it is not shown
    for line in text.splitlines():
        if top := TOP_KEY.match(line):
            is_shown = top[1] in SHOWN
            deepest = 0 if is_shown else None
        elif line[:1] not in ("", " ", "#", "-"):
            return ""
        elif deepest is None or not line.strip():
            continue
        else:
            indent = INDENT.match(line)
            spaces = indent.end() if indent else 0
            deepest = deepest or spaces
            is_shown = spaces <= deepest
        if is_shown:
            lines.append(line)
    return "\n".join(lines)
