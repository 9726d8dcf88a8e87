"""Platforms of a bank: the list, and the settings to ask the user for before a job runs on one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tao_sdk.skills.errors import SkillNotFound
from tao_sdk.skills.names import find_entry, load_named
from tao_sdk.skills.readable import skills_of_kind

if TYPE_CHECKING:
    from tao_sdk.skills.bank import Bank
    from tao_sdk.skills.errors import SkillError
    from tao_sdk.skills.skill import Credential, CredentialGroup, Skill

KIND = "platform"
FOLDER_START = "tao-run-on-"


def platforms_of(bank: Bank) -> tuple[list[Skill], list[SkillError]]:
    """The platforms that jobs can run on, and the errors of platforms that cannot be read. A skill
    with actions of its own, such as the set-up of a host, is no platform.
    """
    skills, mistakes = skills_of_kind(bank, KIND)
    return [skill for skill in skills if not skill.actions], mistakes


def platform_named(bank: Bank, name: str) -> Skill:
    """The platform of this name. Raises SkillNotFound, SkillError."""
    skill = load_named(bank, name)
    if skill.kind != KIND:
        raise SkillNotFound(
            f"{skill.name} is no platform.",
            f"{skill.path} says that its type is {skill.kind}.",
            "List them:",
            "tao skills ls --kind platform",
        )
    return skill


def short_name(skill: Skill) -> str:
    """`slurm` for tao-run-on-slurm."""
    return without_start(skill.name)


def without_start(name: str) -> str:
    return name[len(FOLDER_START) :] if name.startswith(FOLDER_START) else name


def platform_without_file(bank: Bank, name: str) -> str:
    """The short name of a platform whose skill_info.yaml the bank lacks; "" for any other. Raises
    SkillNotFound.
    """
    entry = find_entry(bank, name)
    if entry.path is None and entry.name.startswith(FOLDER_START):
        return without_start(entry.name)
    return ""


def platform_line(skill: Skill, width: int) -> str:
    others = [alias for alias in skill.aliases if alias != short_name(skill)]
    also = f" Also called {', '.join(others)}." if others else ""
    return f"{short_name(skill):<{width}}  {skill.description}{also}".rstrip()


def platform_lines(skills: Sequence[Skill]) -> list[str]:
    """A line for each platform, its name first."""
    width = max((len(short_name(skill)) for skill in skills), default=0)
    return [platform_line(skill, width) for skill in skills]


def question_lines(skill: Skill) -> Iterator[str]:
    """The settings to ask the user for, and nothing else."""
    yield "Required credentials:"
    yield from indented(skill.required_credentials)
    if skill.credential_groups:
        yield "Required credential groups, one of each:"
        for group in skill.credential_groups:
            yield from group_lines(group)
    if skill.optional_credentials:
        yield "Optional, only where the condition applies:"
        yield from indented(skill.optional_credentials)
    if skill.resource_defaults:
        yield "Resource defaults:"
        yield from (f"  {name}: {value}" for name, value in skill.resource_defaults.items())


def indented(credentials: Sequence[Credential]) -> Iterator[str]:
    if not credentials:
        yield "  none"
    for credential in credentials:
        about = f": {credential.description}" if credential.description else ""
        yield f"  {credential.name}{about}"
        yield from more_of(credential)


def more_of(credential: Credential) -> Iterator[str]:
    if credential.only_when:
        yield f"    Only when: {credential.only_when}"
    if credential.default:
        yield f"    Default: {credential.default}"
    if credential.how_to_get:
        yield f"    How to get it: {credential.how_to_get}"


def group_lines(group: CredentialGroup) -> Iterator[str]:
    about = f": {group.description}" if group.description else ""
    yield f"  {group.name}{about}"
    yield f"    One of: {', '.join(group.require_one_of)}"
    if group.preferred:
        yield f"    Preferred: {group.preferred}"


def platform_view(skill: Skill) -> dict[str, Any]:
    return {
        "name": short_name(skill),
        "skill": skill.name,
        "aliases": list(skill.aliases),
        "description": skill.description,
        "file": str(skill.path),
    }


def questions_view(skill: Skill) -> dict[str, Any]:
    """The same as question_lines, for programs."""
    return {
        **platform_view(skill),
        "required_credentials": [asdict(each) for each in skill.required_credentials],
        "credential_groups": [asdict(each) for each in skill.credential_groups],
        "optional_credentials": [asdict(each) for each in skill.optional_credentials],
        "resource_defaults": dict(skill.resource_defaults),
    }
