"""Checks a whole bank: everything that would stop one of its skills, with file, line and key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tao_sdk.model.errors import TaoError
from tao_sdk.model.finding import Finding, Severity, error, warning
from tao_sdk.model.printable import printable
from tao_sdk.model.settings import Settings
from tao_sdk.skills.bank import NAME, Bank, Entry, list_folder
from tao_sdk.skills.bank_file import LARGEST_SCHEMA, read_bank_document, require_mapping
from tao_sdk.skills.errors import SkillError
from tao_sdk.skills.images import bank_manifest, bank_versions
from tao_sdk.skills.loader import read_skill
from tao_sdk.skills.manifest import listed_models, manifest_file
from tao_sdk.skills.names import Summary, summaries
from tao_sdk.skills.skill import Skill
from tao_sdk.skills.skill_files import read_skill_file
from tao_sdk.skills.templates import template_file
from tao_sdk.versions import image_keys, looks_like_key

FEW = 3  # skills that are named in a finding
COPY_AGAIN = "Copy the bank again, whole."


def check_bank(bank: Bank, settings: Settings | None = None) -> tuple[int, list[Finding]]:
    """Check the bank. Return the number of its skills, and findings about them and the bank."""
    entries = list(bank.entries())
    skills: list[Skill] = []
    findings = list(check_folders(bank))
    for entry in entries:
        findings += check_entry(bank, entry, skills)
    findings += check_names(list(summaries(bank)))
    findings += check_manifest(bank, skills)
    findings += check_images(bank, skills, settings)
    if not entries:
        findings.append(error("skill_bank.empty", f"{bank.skills} holds no skill.", "", COPY_AGAIN))
    return len(entries), findings


def check_folders(bank: Bank) -> Iterator[Finding]:
    """Findings about folders that hold no skill, or cannot be named on a command line."""
    for group in bank.groups():
        for folder in bank.folders(group):
            shown = printable(str(folder))
            if not NAME.fullmatch(folder.name):
                yield warning(
                    "skill.name",
                    f"{shown} is left out.",
                    "A skill's name has letters, digits, `.`, `_` and `-`.",
                    "Rename it.",
                )
            elif bank.holds_nothing(folder):
                yield error(
                    "skill.incomplete",
                    f"{shown} has neither SKILL.md nor references/skill_info.yaml.",
                    "",
                    COPY_AGAIN,
                )


def check_entry(bank: Bank, entry: Entry, skills: list[Skill]) -> Iterator[Finding]:
    """Yield findings about one skill. It is added to `skills` if it can be read."""
    if entry.path is None:
        return
    try:
        skill, reading = read_skill(bank.root, entry.path, entry.name, entry.kind)
    except SkillError as mistake:
        yield Finding.of_error(mistake)
        return
    yield from (Finding.of_error(mistake) for mistake in reading.errors)
    yield from map(as_warning, reading.warnings)
    yield from check_templates(bank, skill)
    yield from check_files(bank, skill)
    yield from check_schemas(bank, entry)
    skills.append(skill)


def as_warning(mistake: SkillError) -> Finding:
    return warning(mistake.code, mistake.what, mistake.why, mistake.next)


def check_templates(bank: Bank, skill: Skill) -> Iterator[Finding]:
    for action in skill.spec_templates:
        try:
            if path := template_file(bank.root, skill, action):
                require_mapping(read_bank_document(bank.root, path), path, "a template")
        except SkillError as mistake:
            yield Finding.of_error(mistake)


def check_files(bank: Bank, skill: Skill) -> Iterator[Finding]:
    """Check that the files that travel with the skill's jobs can be read."""
    for source in skill.files.values():
        try:
            read_skill_file(bank, skill, source)
        except SkillError as mistake:
            yield Finding.of_error(mistake)


def check_schemas(bank: Bank, entry: Entry) -> Iterator[Finding]:
    """Check that the JSON schemas in a skill's folder are mappings and can be read."""
    folder = entry.folder / "schemas"
    if entry.is_side or not folder.is_dir():
        return
    for path in list_folder(folder):
        if path.suffix != ".json":
            continue
        try:
            document = read_bank_document(bank.root, path, LARGEST_SCHEMA)
            require_mapping(document, path, "a schema")
        except SkillError as mistake:
            yield Finding.of_error(mistake)


def check_manifest(bank: Bank, skills: Sequence[Skill]) -> Iterator[Finding]:
    """Findings about actions in the bank's list of models that the model's own file does not
    have.
    """
    path = manifest_file(bank)
    try:
        listed = listed_models(bank)
    except SkillError as mistake:
        yield Finding.of_error(mistake)
        return
    known = {skill.folder.name: skill.actions for skill in skills if not is_side_file(skill)}
    for name, about in listed.items():
        if lacking := [action for action in about.actions if action not in known.get(name, ())]:
            what = f"{path} lists {', '.join(lacking)} of {name}, which its own file does not have."
            next = "The file of the skill counts: mend the list."
            yield warning("skill_bank.manifest", printable(what), "", next)


def is_side_file(skill: Skill) -> bool:
    return skill.path.name != "skill_info.yaml"


def check_names(found: Sequence[Summary]) -> Iterator[Finding]:
    """Findings about words that mean two skills."""
    by_name: dict[str, list[Summary]] = defaultdict(list)
    for each in found:
        for name in each.names | {each.entry.name.lower()}:
            by_name[name].append(each)
    for name, several in sorted(by_name.items()):
        if len(several) > 1:
            yield shared_name(name, several)


def shared_name(name: str, several: Sequence[Summary]) -> Finding:
    """The finding for a name of several skills. An architecture may have several skills; a name or
    an alias means one.
    """
    paths = ", ".join(printable(str(each.entry.path or each.entry.folder)) for each in several)
    what = f"{printable(name)!r} means {len(several)} skills."
    next = "Use the names of their folders."
    only_arch = all(name == each.network_arch.lower() for each in several)
    own = [
        each for each in several if name in {word.lower() for word in (each.name, *each.aliases)}
    ]
    if only_arch and len(own) < 2:
        return warning("skill.shared_architecture", what, f"They are {paths}.", next)
    return error("skill.two_of_a_name", what, f"They are {paths}.", "Change one of the names.")


def check_images(
    bank: Bank, skills: Sequence[Skill], settings: Settings | None
) -> Iterator[Finding]:
    """Findings about image keys that stand for nothing, each once."""
    users = users_of_keys(skills)
    if not users:
        return
    try:
        path = bank_versions(bank, settings)
        known = image_keys(bank_manifest(bank, settings))
    except TaoError as mistake:
        yield warning(mistake.code, mistake.what, mistake.why, mistake.next)
        return
    for key, names in sorted(users.items()):
        if key not in known:
            yield warning(
                "skill.no_image",
                f"{path} has no image {key}.",
                f"Skills that need it: {in_short(names)}.",
                "Add it there under images, or give --image to a job.",
            )


def in_short(names: Sequence[str]) -> str:
    """A few of the names, and how many more there are."""
    if len(names) <= FEW:
        return ", ".join(names)
    return f"{', '.join(names[:FEW])} and {len(names) - FEW} more"


def users_of_keys(skills: Sequence[Skill]) -> dict[str, list[str]]:
    """Image key -> the skills that name it."""
    users: dict[str, list[str]] = defaultdict(list)
    for skill in skills:
        images = {skill.container_image, *(each.container_image for each in skill.actions.values())}
        for image in filter(looks_like_key, images):
            users[image].append(skill.name)
    return users


def has_errors(findings: Sequence[Finding]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in findings)
