"""The scripts of a bank: their answers, on a bare python3 as in the `tao` command.

Here: arguments, text or JSON, exit codes. Not here: the files in `scripts/` of a bank, which start
this; what a bank says (platforms.py, models.py, images.py).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_sdk.client.document import Place
from tao_sdk.model.errors import TaoError, UsageError
from tao_sdk.model.printable import printable
from tao_sdk.model.surroundings import Environment
from tao_sdk.preflight.launch import finding_line, findings_view, is_ready, launch_findings
from tao_sdk.skills.bank import BANK_VARIABLE, Bank, choose_bank, open_bank
from tao_sdk.skills.errors import BankError, SkillError
from tao_sdk.skills.images import resolve_bank_image, resolve_bank_key
from tao_sdk.skills.launch_script import LAUNCH_ARGUMENTS, launch_of
from tao_sdk.skills.models import (
    automl_lines,
    made_for_automl,
    model_lines,
    model_view,
    models_of,
)
from tao_sdk.skills.names import load_named, summary_of
from tao_sdk.skills.platforms import (
    platform_lines,
    platform_named,
    platform_view,
    platforms_of,
    question_lines,
    questions_view,
)
from tao_sdk.skills.views import bank_view

if TYPE_CHECKING:
    from tao_sdk.skills.names import Summary

DONE, FAILED, BROKEN_PIPE = 0, 1, 141
# a machine without the package lacks these
LIST_ALL = re.compile(r"tao skills ls( --kind \w+)?")
COPY_AGAIN = "Copy the bank again, whole."
NO_YAML = (
    "This python3 has no PyYAML, and none is beside this script. "
    "Use the scripts that `tao skills install` writes: they bring it along."
)


@dataclass(frozen=True)
class Answer:
    """The output of a script: lines or JSON, and on stderr what could not be read."""

    lines: Iterable[str]
    view: Mapping[str, Any]
    mistakes: Sequence[str] = ()
    failed: bool = False  # although nothing is wrong with the bank


@dataclass(frozen=True)
class Question:
    """A bank, the arguments of a question about it, and the surroundings that count."""

    bank: Bank
    arguments: argparse.Namespace
    environment: Environment


@dataclass(frozen=True)
class Script:
    """One script: its help, its own arguments, and its answer. `names` is the script that lists the
    names that it takes.
    """

    description: str
    arguments: Mapping[str, Mapping[str, Any]]
    answer: Callable[[Question], Answer]
    names: str = "list_tao_capabilities.py"


def main(path: str, words: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run the script at `path`. Its exit code is 0, or 1 if something is wrong with the bank or
    with a name. Wrong arguments end the process with 2.
    """
    script = SCRIPTS[Path(path).stem]
    parser = parser_of(script, Path(path).name)
    arguments = parser.parse_args(words)
    try:
        return run(script, Path(path), arguments, Environment(variables))
    except UsageError as error:
        parser.error(str(error))
    except TaoError as error:
        names = shlex.quote(str(Path(path).parent / script.names))
        tell(LIST_ALL.sub(lambda _: names, str(error)))
    except (ImportError, SyntaxError) as error:
        tell(NO_YAML if getattr(error, "name", "") == "yaml" else f"{error}: {COPY_AGAIN}")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        tell(f"{error.filename} cannot be read: {error.strerror}. Check its permissions.")
    return FAILED


def parser_of(script: Script, name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(name, description=script.description, allow_abbrev=False)
    parser.add_argument(
        "--skill-bank",
        metavar="DIR",
        help="the bank; default: that of $TAO_SKILL_BANK_PATH, else the one of this script",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    for flag, about in script.arguments.items():
        parser.add_argument(flag, **about)
    return parser


def run(script: Script, path: Path, arguments: argparse.Namespace, environment: Environment) -> int:
    bank = bank_of_script(path, arguments.skill_bank, environment)
    answer = script.answer(Question(bank, arguments, environment))
    if arguments.format == "json":
        print(json.dumps({"schema": 1, "bank": bank_view(bank), **answer.view}, indent=1))
    else:
        for line in answer.lines:
            print(printable(line))
    sys.stdout.flush()
    for mistake in answer.mistakes:
        tell(mistake)
    return FAILED if answer.mistakes or answer.failed else DONE


def bank_of_script(path: Path, named: str | None, environment: Environment) -> Bank:
    """The bank that is named, else that of $TAO_SKILL_BANK_PATH, else the bank around the script.
    Raises BankError.
    """
    if named or environment.get(BANK_VARIABLE):
        return choose_bank(named, environment)
    return open_bank(path.resolve().parents[1], path.name)


def tell(text: str) -> None:
    print(f"error: {printable(text)}", file=sys.stderr)


def texts(mistakes: Sequence[SkillError]) -> list[str]:
    return [str(mistake) for mistake in mistakes]


def list_platforms(question: Question) -> Answer:
    if question.arguments.platform is not None:
        skill = platform_named(question.bank, question.arguments.platform)
        return Answer(question_lines(skill), {"platform": questions_view(skill)})
    skills, mistakes = platforms_of(question.bank)
    refuse_none(question.bank, [*skills, *mistakes], "platform")
    views = [platform_view(skill) for skill in skills]
    return Answer(platform_lines(skills), {"platforms": views}, texts(mistakes))


def list_models(question: Question) -> Answer:
    if question.arguments.scope == "automl":
        return list_automl(question)
    models, mistakes = models_of(question.bank)
    refuse_none(question.bank, [*models, *mistakes], "model")
    view = {"scope": "all", "models": [model_view(model) for model in models]}
    return Answer(model_lines(models), view, texts(mistakes))


def list_automl(question: Question) -> Answer:
    models, mistakes = models_of(question.bank)
    refuse_none(question.bank, [*models, *mistakes], "model")
    models = made_for_automl(models)
    view = {"scope": "automl", "models": [model_view(model) for model in models]}
    return Answer(automl_lines(models), view, texts(mistakes))


def list_capabilities(question: Question) -> Answer:
    """Everything that a bank has, by kind."""
    platforms, mistakes = platforms_of(question.bank)
    models, unread_models = models_of(question.bank)
    refuse_none(question.bank, list(question.bank.entries()), "skill")
    others = other_skills(question.bank)
    lines = [
        *section("Applications", [each for each in others if each.kind != "data"]),
        *section("Data", [each for each in others if each.kind == "data"]),
        "Platforms:",
        *(f"  {line}" for line in platform_lines(platforms)),
        "Models:",
        *(f"  {line}" for line in model_lines(models)),
        *automl_lines(models),
    ]
    view = {
        "applications": [each.name for each in others if each.kind != "data"],
        "data": [each.name for each in others if each.kind == "data"],
        "platforms": [platform_view(skill) for skill in platforms],
        "models": [model_view(model) for model in models],
    }
    unread = [each.problem for each in others if each.problem]
    told = dict.fromkeys([*texts(mistakes), *texts(unread_models), *unread])
    return Answer(lines, view, list(told))


def other_skills(bank: Bank) -> list[Summary]:
    """The skills that are neither models nor platforms."""
    known = ("model", "platform")
    candidates = [
        entry
        for entry in bank.entries()
        if entry.kind not in known or entry.folder.parent == bank.skills
    ]
    found = [summary_of(bank, entry) for entry in candidates]
    return [each for each in found if each.kind not in known]


def refuse_none(bank: Bank, found: Sequence[object], noun: str) -> None:
    """Raise BankError if a bank has nothing of the kind that is asked for."""
    if not found:
        raise BankError(f"{bank.skills} holds no {noun}.", "", COPY_AGAIN)


def section(title: str, skills: Sequence[Summary]) -> list[str]:
    """The skills below a title; no lines if there are no skills."""
    if not skills:
        return []
    return [f"{title}:", *(f"  {each.name}  {', '.join(each.actions)}".rstrip() for each in skills)]


def resolve_image(question: Question) -> Answer:
    """The image of an action. Raises TaoError if it has none."""
    skill = load_named(question.bank, question.arguments.model)
    action = question.arguments.action
    key = skill.image_of(action)
    if not key:
        raise SkillError(
            Place(str(skill.path)),
            f"no container_image is given for the action {action}.",
            "",
            "Add it there, or give an image to the job.",
        )
    image = resolve_bank_image(question.bank, key, question.environment)
    view = {
        "model": skill.name,
        "action": action,
        "image": image,
        "key": "" if key == image else key,
        "file": str(skill.path),
    }
    return Answer([image], view)


def resolve_key(question: Question) -> Answer:
    key = question.arguments.key
    value = resolve_bank_key(question.bank, key, question.environment)
    return Answer([value], {"key": key, "value": value})


def check_launch(question: Question) -> Answer:
    """Check a launch and report what it lacks. Nothing is installed, whatever flags are given."""
    launch = launch_of(question.bank, question.arguments, question.environment.variables)
    findings = list(launch_findings(launch))
    view = {"platform": launch.platform, **findings_view(findings)}
    return Answer(map(finding_line, findings), view, failed=not is_ready(findings))


SCRIPTS: Mapping[str, Script] = {
    "list_tao_platforms": Script(
        "Lists the platforms of a skill bank; of one platform, what to ask the user for.",
        {"--platform": {"metavar": "NAME", "help": "say what this platform needs"}},
        list_platforms,
        "list_tao_platforms.py",
    ),
    "list_tao_models": Script(
        "Lists the models of a skill bank, or those that are made for AutoML.",
        {"--scope": {"choices": ("all", "automl"), "default": "all"}},
        list_models,
    ),
    "list_automl_support": Script(
        "Lists the models that are made for AutoML, and what some of them lack.", {}, list_automl
    ),
    "list_tao_capabilities": Script(
        "Lists the applications, platforms and models of a skill bank.", {}, list_capabilities
    ),
    "resolve_tao_image": Script(
        "Prints the container image of an action.",
        {
            "--model": {"metavar": "NAME", "required": True, "help": "folder, name or alias"},
            "--action": {"metavar": "ACTION", "required": True, "help": "such as train"},
        },
        resolve_image,
        "list_tao_models.py",
    ),
    "check_tao_launch_preflight": Script(
        "Looks at all that a launch needs, and changes nothing.",
        LAUNCH_ARGUMENTS,
        check_launch,
        "list_tao_platforms.py",
    ),
    "resolve_versions_key": Script(
        "Prints what a key of versions.yaml stands for.",
        {"key": {"metavar": "KEY", "help": "such as wheels.tao_sdk_docker"}},
        resolve_key,
    ),
}
