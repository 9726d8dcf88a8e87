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
    folder = skill.path.parent
    return {
        target: read_bank_bytes(bank.root, folder / source, LARGEST)
        for target, source in skill.files.items()
    }
