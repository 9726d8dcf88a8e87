"""Files that a skill brings along: its own program, and data that come with it."""

from __future__ import annotations

from tao_sdk.skills.bank import Bank
from tao_sdk.skills.bank_file import read_bank_bytes
from tao_sdk.skills.skill import Skill

LARGEST = 16_000_000  # bytes of one file


def skill_files(bank: Bank, skill: Skill) -> dict[str, bytes]:
    """Path in the job -> content. Raises SkillError for a file that is missing, larger than 16 MB,
    or outside of the bank.
    """
    return {target: read_skill_file(bank, skill, source) for target, source in skill.files.items()}


def read_skill_file(bank: Bank, skill: Skill, source: str) -> bytes:
    """The content of the file at a path beside the skill's own. Raises SkillError."""
    return read_bank_bytes(bank.root, skill.path.parent / source, LARGEST)
