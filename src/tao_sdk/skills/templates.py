"""Templates: the specs that a bank has to begin with."""

from __future__ import annotations

import os
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
    paths = [folder / template.path for folder in (skill.path.parent, skill.folder)]
    outside = [path for path in paths if not is_inside(root, path)]
    for path in paths:
        if path not in outside and path.is_file():
            return path
    if outside == paths or any(map(os.path.lexists, outside)):
        raise template_error(action, template, f"the template {template.path} is outside the bank.")
    raise template_error(action, template, f"there is no template {template.path}.")


def template_error(action: str, template: Template, what: str) -> SkillError:
    return SkillError(
        template.place,
        what,
        "Its path is relative to this file, or to the skill's folder.",
        "Copy the bank again, or remove the line.",
        key=f"spec_templates.{action}",
    )
