"""`tao skills`: list a bank's skills, show or check them; and write a copy of the packaged bank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tao_sdk.cli import exit_codes
from tao_sdk.cli.command import command
from tao_sdk.model.errors import UsageError

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.model.finding import Finding
    from tao_sdk.skills.bank import Bank
    from tao_sdk.skills.names import Summary
    from tao_sdk.skills.skill import Action, Skill

LEFT_OUT = "-"


@command("skills")
@click.argument("task", type=click.Choice(["ls", "show", "check", "install"]), default="ls")
@click.argument("word", required=False, metavar="[NAME | DIR]")
@click.option(
    "--skill-bank",
    metavar="DIR",
    help="The bank to use. Default: $TAO_SKILL_BANK_PATH, ~/tao-skills-external, our own.",
)
@click.option("--kind", metavar="KIND", help="Of ls: only skills of this kind, such as model.")
@click.option(
    "--for",
    "agent",
    metavar="AGENT",
    help="Of install: also put the skills for agents where this one looks: claude or codex.",
)
def skills(
    out: Output,
    task: str,
    word: str | None,
    skill_bank: str | None,
    kind: str | None,
    agent: str | None,
) -> int | None:
    """List the skills of a bank (ls), show one (show NAME), check all of them (check [DIR]), or
    write the packaged bank as a folder (install [DIR]).

    With check, the exit code is 2 when a skill cannot be used.
    """
    refuse_flag_of_other_task(task, "ls", "--kind", kind)
    refuse_flag_of_other_task(task, "install", "--for", agent)
    if task == "install":
        return install(out, word, agent)
    if task == "check":
        return check(out, word or skill_bank)
    if task == "show":
        return show_skill(out, word, skill_bank)
    return list_skills(out, word, skill_bank, kind)


def refuse_flag_of_other_task(task: str, owner: str, flag: str, value: str | None) -> None:
    if value is not None and task != owner:
        raise UsageError(
            f"{flag} is no flag of tao skills {task}.", "", f"It belongs to: tao skills {owner}"
        )


def list_skills(out: Output, word: str | None, skill_bank: str | None, kind: str | None) -> None:
    from tao_sdk.skills.bank import choose_bank
    from tao_sdk.skills.names import summaries
    from tao_sdk.skills.views import list_view

    if word:
        raise UsageError(f"ls takes no name: {word!r}.", "", f"To show it: tao skills show {word}")
    bank = choose_bank(skill_bank)
    found = [each for each in summaries(bank) if kind in (None, each.kind)]
    out.object(list_view(bank, found))
    out.table(("NAME", "KIND", "IMAGE", "ACTIONS"), [row_of(each) for each in found])
    out.note(f"{len(found)} skills of {bank.root}, named by {bank.named_by}.")
    if any(each.problem for each in found):
        out.note("Some cannot be read. See why: tao skills check")


def row_of(summary: Summary) -> tuple[str, str, str, str]:
    actions = ", ".join(summary.actions) or LEFT_OUT
    if summary.problem:
        actions = "cannot be read"
    return (summary.entry.name, summary.kind, summary.container_image or LEFT_OUT, actions)


def show_skill(out: Output, word: str | None, skill_bank: str | None) -> None:
    from tao_sdk.skills.bank import choose_bank
    from tao_sdk.skills.names import load_named
    from tao_sdk.skills.views import skill_view

    if not word:
        raise UsageError("show takes the name of a skill.", "", "List them:", "tao skills ls")
    bank = choose_bank(skill_bank)
    skill = load_named(bank, word)
    images = images_of_actions(bank, skill)
    out.object(skill_view(bank, skill, images))
    out.lines(skill_lines(out, skill, images))
    out.note(f"As {skill.path} says.")


def images_of_actions(bank: Bank, skill: Skill) -> dict[str, str]:
    """Image key or image -> image; "" if the key stands for nothing."""
    from tao_sdk.skills.images import image_if_known

    named = dict.fromkeys([skill.container_image, *map(skill.image_of, skill.actions)])
    return {image: image_if_known(bank, image) for image in named if image}


def skill_lines(out: Output, skill: Skill, images: Mapping[str, str]) -> Iterator[str]:
    from tao_sdk.skills.platforms import question_lines

    yield out.paint(skill.name, bold=True)
    yield from (f"  {name:<14}{value}" for name, value in facts_of(skill).items() if value)
    if skill.required_credentials or skill.credential_groups or skill.optional_credentials:
        yield from (f"  {line}" for line in question_lines(skill))
    for key, image in images.items():
        yield f"  {'image':<14}{image_line(key, image)}"
    for action in skill.actions.values():
        yield from action_lines(out, skill, action)
    yield from (f"  note          {note}" for note in skill.notes)


def facts_of(skill: Skill) -> dict[str, str]:
    shorthands = [f"{name}={key}" for name, key in skill.spec_shorthand_keys.items()]
    return {
        "kind": skill.kind,
        "description": skill.description,
        "architecture": skill.network_arch,
        "aliases": ", ".join(skill.aliases),
        "data format": skill.data_format,
        "GPU key": skill.gpu_spec_key,
        "node key": skill.node_spec_key,
        "AutoML": {True: "yes", False: "no", None: ""}[skill.automl_enabled],
        "short names": ", ".join(shorthands),
    }


def image_line(key: str, image: str) -> str:
    if not image:
        return f"{key} stands for no image in versions.yaml of this bank"
    if image == key:
        return image
    return f"{key} = {image}"


def action_lines(out: Output, skill: Skill, action: Action) -> Iterator[str]:
    yield f"  {out.paint(action.name, bold=True)} ({action.mode.value})"
    yield f"    {'command':<12}{action.command}"
    if action.container_image:
        yield f"    {'image':<12}{action.container_image}"
    if action.name in skill.spec_templates:
        yield f"    {'template':<12}{skill.spec_templates[action.name].path}"
    for each in action.inputs.values():
        optional = ", optional" if each.optional else ""
        yield f"    {'input':<12}{each.key} ({each.type}{optional})"
    for output in action.outputs.values():
        yield f"    {'output':<12}{output.key} ({output.type})"


def check(out: Output, skill_bank: str | None) -> int:
    from tao_sdk.cli import show
    from tao_sdk.skills.bank import choose_bank
    from tao_sdk.skills.check import check_bank, has_errors
    from tao_sdk.skills.views import check_view

    bank = choose_bank(skill_bank)
    count, findings = check_bank(bank)
    out.object(check_view(bank, count, findings))
    out.lines(show.finding(each, out) for each in findings)
    out.line(verdict(count, findings))
    out.note(f"The bank is {bank.root}, named by {bank.named_by}.")
    return exit_codes.WRONG if has_errors(findings) else exit_codes.DONE


def verdict(count: int, findings: list[Finding]) -> str:
    """The number of skills checked, and of errors and warnings."""
    from tao_sdk.cli.show import plural
    from tao_sdk.model.finding import Severity

    severities = [finding.severity for finding in findings]
    errors = plural(severities.count(Severity.ERROR), "error")
    warnings = plural(severities.count(Severity.WARNING), "warning")
    return f"{plural(count, 'skill')} checked: {errors}, {warnings}."


def install(out: Output, word: str | None, agent: str | None) -> None:
    from tao_sdk.cli.show import plural
    from tao_sdk.skills.installing import install_bank, install_for, refuse_unknown_agent
    from tao_sdk.skills.views import installed_view

    if agent:
        refuse_unknown_agent(agent)
    installed = [install_bank(Path(word) if word else None)]
    if agent:
        installed.append(install_for(agent))
    out.object(installed_view(installed))
    for each in installed:
        done = f"{plural(each.written, 'file')} written, {each.removed} removed"
        out.line(f"{each.folder} is up to date: {done}.")
    if word:
        out.note(f"To use it: export TAO_SKILL_BANK_PATH={installed[0].folder}")
