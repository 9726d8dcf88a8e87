"""Templates: the specs that a bank has to begin with."""

from __future__ import annotations

from pathlib import Path

from tao_sdk.skills.bank_file import is_inside
from tao_sdk.skills.errors import SkillError
from tao_sdk.skills.skill import Skill, Template


def template_file(root: Path, skill: Skill, action: str) -> Path | None:
    """The file of an action's template; None if the skill names none. Raises SkillError if the file
    is missing, or outside of the bank.
    """
    template = skill.spec_templates.get(action)
    if template is None:
        return None
    path = skill.path.parent / template.path
    if not is_inside(root, path):
        raise template_error(action, template, f"the template {template.path} is outside the bank.")
    if not path.is_file():
        raise template_error(action, template, f"there is no template {template.path}.")
    return path


def template_error(action: str, template: Template, what: str) -> SkillError:
    return SkillError(
        template.place,
        what,
        "Its path is relative to this file.",
        "Copy the bank again, or remove the line.",
        key=f"spec_templates.{action}",
    )
