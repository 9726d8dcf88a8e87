"""Credentials that a skill needs: check that they are set. No value is used or printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tao_sdk.model.finding import Finding, Severity, error

if TYPE_CHECKING:
    from collections.abc import Callable

    from tao_sdk.skills.skill import Credential, CredentialGroup, Skill

    IsSet = Callable[[str], bool]


def credential_findings(skill: Skill, is_set: IsSet) -> Iterator[Finding]:
    """An error for each required credential that is not set, and for each group without any; else
    one finding that they are set.
    """
    missing = [
        *(missing_one(skill, each) for each in skill.required_credentials if not is_set(each.name)),
        *(
            missing_group(skill, group)
            for group in skill.credential_groups
            if not any(map(is_set, group.require_one_of))
        ),
    ]
    yield from missing
    names = [each.name for each in skill.required_credentials]
    names += [name for group in skill.credential_groups for name in group.require_one_of]
    found = [name for name in names if is_set(name)]
    if found and not missing:
        yield Finding(Severity.OK, "credential.set", f"{skill.name}: {', '.join(found)} set.")


def missing_one(skill: Skill, credential: Credential) -> Finding:
    get_it = f" How to get it: {credential.how_to_get}" if credential.how_to_get else ""
    return error(
        "credential.missing",
        f"{credential.name} is not set.",
        f"{skill.name} needs it{': ' + credential.description if credential.description else ''}.",
        f"Export {credential.name} in the shell that launches the job.{get_it}",
    )


def missing_group(skill: Skill, group: CredentialGroup) -> Finding:
    names = " or ".join(group.require_one_of)
    return error(
        "credential.missing",
        f"{names} is not set.",
        f"{skill.name} needs one of them{': ' + group.name if group.name else ''}.",
        f"Export {group.preferred or names} in the shell that launches the job.",
    )
