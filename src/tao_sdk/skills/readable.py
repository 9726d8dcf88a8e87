"""The skills of a bank that can be read, and the errors of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tao_sdk.skills.errors import SkillError, incomplete_skill
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
            if bank.holds_nothing(entry.folder):
                mistakes.append(incomplete_skill(entry.folder))
            continue
        try:
            skill, reading = read_skill(bank.root, entry.path, entry.name, entry.kind)
            if skill.kind == kind:
                refuse_mistakes(reading)
                skills.append(skill)
        except SkillError as mistake:
            mistakes.append(mistake)
    return skills, mistakes


def may_be(bank: Bank, entry: Entry, kind: str) -> bool:
    """True unless the skill lies in the group of another kind. Without groups, only its file states
    its kind.
    """
    return entry.kind == kind or entry.folder.parent == bank.skills
