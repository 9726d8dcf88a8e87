"""Skills as JSON: the output of `tao skills` for programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tao_sdk.model.finding import Finding
    from tao_sdk.skills.bank import Bank
    from tao_sdk.skills.installing import Installed
    from tao_sdk.skills.names import Summary
    from tao_sdk.skills.skill import Skill

    View = dict[str, Any]


def bank_view(bank: Bank) -> View:
    versions = bank.versions_file
    return {
        "path": str(bank.root),
        "named_by": bank.named_by,
        "versions": str(versions) if versions else None,
    }


def list_view(bank: Bank, found: Sequence[Summary]) -> View:
    """The bank and its skills, in a few words each."""
    return {"schema": 1, "bank": bank_view(bank), "skills": [summary_view(each) for each in found]}


def summary_view(summary: Summary) -> View:
    path = summary.entry.path
    return {
        "name": summary.entry.name,
        "kind": summary.kind,
        "network_arch": summary.network_arch,
        "aliases": list(summary.aliases),
        "actions": list(summary.actions),
        "container_image": summary.container_image,
        "file": str(path) if path else None,
        "problem": summary.problem,
    }


def skill_view(bank: Bank, skill: Skill, images: Mapping[str, str]) -> View:
    """Everything in the skill's file, and the images that its keys stand for."""
    fields = {
        field.name: getattr(skill, field.name)
        for field in dataclasses.fields(skill)
        if field.name not in ("path", "spec_templates")
    }
    templates = {action: template.path for action, template in skill.spec_templates.items()}
    return {
        "schema": 1,
        "bank": bank_view(bank),
        "file": str(skill.path),
        **{name: as_plain(value) for name, value in fields.items()},
        "spec_templates": templates,
        "images": dict(images),
    }


def as_plain(value: Any) -> Any:
    """Records as mappings, with all that they hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, tuple):
        return [as_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {name: as_plain(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def check_view(bank: Bank, count: int, findings: Sequence[Finding]) -> View:
    return {
        "schema": 1,
        "bank": bank_view(bank),
        "skills": count,
        "findings": [finding.to_json() for finding in findings],
    }


def installed_view(installed: Sequence[Installed]) -> View:
    """The folders that were written."""
    return {
        "schema": 1,
        "folders": [
            {"folder": str(each.folder), "written": each.written, "removed": each.removed}
            for each in installed
        ],
    }
