"""Models of a bank: their actions, and the state of AutoML for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tao_sdk.client.document import Place
from tao_sdk.skills.automl import BLOCKED, OFF, READY, AutomlSupport, automl_support
from tao_sdk.skills.errors import SkillError
from tao_sdk.skills.manifest import ListedModel, listed_models, manifest_file
from tao_sdk.skills.readable import skills_of_kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tao_sdk.skills.bank import Bank
    from tao_sdk.skills.skill import Skill


@dataclass(frozen=True)
class Model:
    """A model, the state of AutoML for it, and what the bank's list says of it."""

    skill: Skill
    automl: AutomlSupport
    listed: ListedModel = ListedModel()


def models_of(bank: Bank) -> tuple[list[Model], list[SkillError]]:
    """The models of a bank, and the errors of models that cannot be read, or that the bank's list
    has and the bank has not.
    """
    skills, mistakes = skills_of_kind(bank, "model")
    try:
        listed = listed_models(bank)
    except SkillError as mistake:
        listed, mistakes = {}, [*mistakes, mistake]
    models = [
        Model(skill, automl_support(bank, skill), listed.get(skill.folder.name, ListedModel()))
        for skill in skills
    ]
    return models, [*mistakes, *missing_models(bank, listed)]


def missing_models(bank: Bank, listed: Mapping[str, ListedModel]) -> Iterator[SkillError]:
    """An error for each model of the list that has no folder in the bank."""
    for name in listed:
        if not bank.folders_named(name):
            what = f"{name} is listed, and the bank does not have it."
            yield SkillError(
                Place(str(manifest_file(bank))), what, "", "Copy the bank again, whole."
            )


def made_for_automl(models: Sequence[Model]) -> list[Model]:
    return [model for model in models if model.automl.state != OFF]


def model_lines(models: Sequence[Model]) -> list[str]:
    """A line for each model: its name, its architecture, its actions."""
    width = max((len(model.skill.name) for model in models), default=0)
    arch_width = max((len(model.skill.network_arch) for model in models), default=0)
    return [
        f"{model.skill.name:<{width}}  {model.skill.network_arch:<{arch_width}}  "
        + ", ".join(model.skill.actions)
        for model in models
    ]


def automl_lines(models: Sequence[Model]) -> Iterator[str]:
    """The models that AutoML can be used with, then the models that lack something for it."""
    ready = [model for model in models if model.automl.state == READY]
    blocked = [model for model in models if model.automl.state == BLOCKED]
    yield f"AutoML can be used: {len(ready) or 'none'}"
    yield from (f"  {line}" for line in model_lines(ready))
    yield f"AutoML is enabled, and cannot be used yet: {len(blocked) or 'none'}"
    for model in blocked:
        yield f"  {model.skill.name} ({model.skill.network_arch}): {model.automl.problem}"


def model_view(model: Model) -> dict[str, Any]:
    skill = model.skill
    return {
        "name": skill.name,
        "network_arch": skill.network_arch,
        "aliases": list(skill.aliases),
        "actions": list(skill.actions),
        "automl_enabled": bool(skill.automl_enabled),
        "valid_train_schema": model.automl.has_schema,
        "automl": model.automl.state,
        "problem": model.automl.problem,
        "failures": dict(model.listed.failures),
        "file": str(skill.path),
    }
