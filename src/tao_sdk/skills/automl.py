"""AutoML: the models of a bank that are made for it, and those that it can be used with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tao_sdk.skills.bank_file import LARGEST_SCHEMA, read_bank_document
from tao_sdk.skills.errors import SkillError

if TYPE_CHECKING:
    from tao_sdk.skills.bank import Bank
    from tao_sdk.skills.skill import Skill

READY, BLOCKED, OFF = "ready", "blocked", "off"


@dataclass(frozen=True)
class AutomlSupport:
    """The state of AutoML for a model. `problem` says why it is blocked."""

    state: str  # READY, BLOCKED or OFF
    problem: str = ""
    has_schema: bool = False  # a schema of train that can be read


def automl_support(bank: Bank, skill: Skill) -> AutomlSupport:
    """The state of AutoML for a model. A model made for AutoML also needs the schema of its action
    train.
    """
    problem = schema_problem(bank, skill)
    if not skill.automl_enabled:
        return AutomlSupport(OFF, has_schema=not problem)
    if problem:
        return AutomlSupport(BLOCKED, problem)
    return AutomlSupport(READY, has_schema=True)


def schema_problem(bank: Bank, skill: Skill) -> str:
    """The reason why the schema of train cannot be used; "" if it can."""
    if "train" not in skill.actions:
        return "it has no action train"
    path = skill.folder / "schemas" / "train.schema.json"
    if not path.is_file():
        return "it has no schemas/train.schema.json"
    try:
        document = read_bank_document(bank.root, path, LARGEST_SCHEMA)
    except SkillError as mistake:
        return mistake.what
    if not isinstance(document.data, dict):
        return f"{path}: a schema is a mapping; this is {document.shape}."
    return ""
