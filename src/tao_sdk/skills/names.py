"""Names: the skill of a bank that a word means, and the list of all skills.

A folder's own name is looked for first, then the short form of it (`dino` for tao-train-dino). Only
then are all files read, for their name, network_arch and aliases.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tao_sdk.model.printable import printable
from tao_sdk.skills.bank import Bank, Entry
from tao_sdk.skills.errors import SkillError, SkillNotFound, incomplete_skill
from tao_sdk.skills.outline import Outline, read_outline

if TYPE_CHECKING:
    from tao_sdk.skills.skill import Skill

PREFIXES = ("tao-train-", "tao-finetune-", "tao-run-on-")
SIDE_PREFIX = "tao-deploy-"
SIDE_WORDS = re.compile(rf"^{SIDE_PREFIX}|-deploy$")


@dataclass(frozen=True)
class Summary:
    """A skill as a list shows it. `problem` says why it cannot be read, if so."""

    entry: Entry
    kind: str
    name: str
    network_arch: str = ""
    aliases: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    container_image: str = ""
    problem: str = ""

    @property
    def names(self) -> set[str]:
        """The words that its file gives it, in small letters."""
        own = {self.name, *self.aliases}
        if not self.entry.is_side:
            own.add(self.network_arch)
        return {name.lower() for name in own if name}


def load_named(bank: Bank, name: str) -> Skill:
    """The skill that `name` means. Raises SkillNotFound, SkillError."""
    from tao_sdk.skills.loader import load_skill

    entry = find_entry(bank, name)
    if entry.path is None:
        if bank.holds_nothing(entry.folder):
            raise incomplete_skill(entry.folder)
        raise SkillNotFound(
            f"{entry.name} has no skill_info.yaml.",
            "It is a skill for people and agents; nothing in it can be run.",
            f"Read {entry.folder / 'SKILL.md'}",
        )
    return load_skill(bank.root, entry.path, entry.name, entry.kind)


def find_entry(bank: Bank, name: str) -> Entry:
    """The entry of the skill with this name. Raises SkillNotFound if none or several have it."""
    entries = entries_by_folder(bank, name)
    if not entries:
        entries = [each.entry for each in summaries(bank) if name.lower() in each.names]
    if not entries:
        raise unknown_name(bank, name)
    if len(entries) > 1:
        folders = ", ".join(sorted(entry.name for entry in entries))
        paths = ", ".join(sorted(str(entry.folder) for entry in entries))
        raise SkillNotFound(
            f"{printable(name)!r} means several skills: {folders}.",
            f"They are {paths}.",
            "Use the name of a folder, and run: tao skills check",
        )
    return entries[0]


def entries_by_folder(bank: Bank, name: str) -> list[Entry]:
    """The skills whose folder or side file has this name. No file is read for that."""
    for candidate in folder_names(name):
        if folders := bank.folders_named(candidate):
            return [next(bank.entries_of(folder)) for folder in folders]
    return side_entries(bank, name)


def side_entries(bank: Bank, name: str) -> list[Entry]:
    """The side file of `tao-deploy-NAME` or `NAME-deploy`, in the folder of NAME."""
    model = SIDE_WORDS.sub("", name.lower())
    if model == name.lower():
        return []
    return [
        entry
        for candidate in folder_names(model)
        for folder in bank.folders_named(candidate)
        for entry in bank.entries_of(folder)
        if entry.name == SIDE_PREFIX + model.replace("_", "-")
    ]


def folder_names(name: str) -> list[str]:
    """The names that the folder may have, the likeliest first."""
    plain = name.lower().replace("_", "-")
    return list(dict.fromkeys([name, plain, *(prefix + plain for prefix in PREFIXES)]))


def summaries(bank: Bank) -> Iterator[Summary]:
    """All skills of the bank, by folder."""
    for entry in bank.entries():
        yield summary_of(bank, entry)


def summary_of(bank: Bank, entry: Entry) -> Summary:
    if entry.path is None:
        is_incomplete = bank.holds_nothing(entry.folder)
        problem = incomplete_skill(entry.folder).what if is_incomplete else ""
        return Summary(entry, entry.kind, entry.name, problem=problem)
    try:
        outline = read_outline(bank.root, entry.path)
    except SkillError as error:
        return Summary(entry, entry.kind, entry.name, problem=error.what)
    if outline is None:
        problem = f"{entry.path}: this is no mapping in YAML."
        return Summary(entry, entry.kind, entry.name, problem=problem)
    return summary_of_outline(entry, outline)


def summary_of_outline(entry: Entry, outline: Outline) -> Summary:
    return Summary(
        entry,
        outline.first("type") or entry.kind,
        outline.first("name") or entry.name,
        outline.first("network_arch"),
        tuple(outline.texts.get("aliases", [])),
        tuple(outline.texts.get("actions", [])),
        outline.first("container_image"),
    )


def unknown_name(bank: Bank, name: str) -> SkillNotFound:
    found = list(summaries(bank))
    known = sorted({word for each in found for word in (each.entry.name, *each.names)})
    near = difflib.get_close_matches(name.lower(), [*known, *short_names(known)], n=1)
    hint = f"Did you mean {near[0]}?" if near else f"{len(found)} skills are there."
    return SkillNotFound(
        f"The skill bank has no skill {printable(name)!r}.",
        f"It is {bank.root}, named by {bank.named_by}.",
        printable(hint) + " List them:",
        "tao skills ls",
    )


def short_names(names: Sequence[str]) -> list[str]:
    """`dino` for tao-train-dino."""
    return [name[len(prefix) :] for name in names for prefix in PREFIXES if name.startswith(prefix)]
