"""The skills of a bank that can be read, and the errors of the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tao_sdk.client.document import Place
from tao_sdk.skills.errors import SkillError
from tao_sdk.skills.loader import read_skill, refuse_mistakes

if TYPE_CHECKING:
    from tao_sdk.skills.bank import Bank, Entry
    from tao_sdk.skills.skill import Skill


def skills_of_kind(bank: Bank, kind: str) -> tuple[list[Skill], list[SkillError]]:
    """The skills of a kind, by folder; and the first mistake of each file that cannot be used.

    A file that cannot be read at all counts: it may be of that kind.
    """
    skills: list[Skill] = []
    mistakes: list[SkillError] = []
    for entry in bank.entries():
        if not may_be(bank, entry, kind):
            continue
        if entry.path is None:
            mistakes += copied_without_files(bank, entry)
            continue
        try:
            skill, reading = read_skill(bank.root, entry.path, entry.name, entry.kind)
            if skill.kind == kind:
                refuse_mistakes(reading)
                skills.append(skill)
        except SkillError as mistake:
            mistakes.append(mistake)
    return skills, mistakes


def copied_without_files(bank: Bank, entry: Entry) -> Iterator[SkillError]:
    """The error of a skill's folder that was copied without its files. A skill may have no
    skill_info.yaml; then it has a SKILL.md.
    """
    if bank.holds_nothing(entry.folder):
        yield SkillError(
            Place(str(entry.folder)),
            "this has neither SKILL.md nor references/skill_info.yaml.",
            "",
            "Copy the bank again, whole.",
        )


def may_be(bank: Bank, entry: Entry, kind: str) -> bool:
    """True unless the skill lies in the group of another kind. Without groups, only its file states
    its kind.
    """
    return entry.kind == kind or entry.folder.parent == bank.skills
