"""Proposals of a language model: what it is asked, and what its answer means. Pure.

It gets the space, the goals, the trials so far and what was wrong with its last answers; it gives
one configuration in JSON. Not here: how it is reached (endpoint.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tao_automl.space.mistake import SpaceError
from tao_automl.space.parameter import Choice, Parameter, Range, Subset, options_text, range_text
from tao_automl.space.space import applies, signature, when_text
from tao_automl.state import Search, best_trial
from tao_automl.trial import Objective, Params, Trial

MOST_TRIALS = 60  # that it is told of: the best ones and the newest
LONGEST_REASON = 300  # characters of why a trial failed
LONGEST_NOTES = 2000
LONGEST_ANSWER = 100_000
FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)

TASK = """You search the best settings of a training, by proposing one configuration at a time.
Answer with one JSON object and nothing else:
{"params": {KEY: VALUE, ...}, "notes": "what you want to remember, briefly"}
Give every parameter that applies, each within its bounds, and no configuration twice."""
RESEARCH = """Work as a researcher: state in the notes what you think matters and why, and propose
what would tell most about it."""


class AnswerMistake(ValueError):
    """What is wrong with an answer, in words that the model is told."""


@dataclass(frozen=True)
class ModelAnswer:
    """A configuration that may be tried, and what the model wants to remember."""

    params: Params
    notes: str


def question(search: Search) -> tuple[Mapping[str, str], ...]:
    """The messages to a language model, for the next configuration."""
    return (
        {"role": "system", "content": "\n".join(task_lines(search))},
        {"role": "user", "content": "\n".join(user_lines(search))},
    )


def task_lines(search: Search) -> Iterator[str]:
    yield TASK
    if search.settings.algorithm == "autoresearch":
        yield RESEARCH
    if search.settings.research_program:
        yield f"The program of the research: {search.settings.research_program}"


def user_lines(search: Search) -> Iterator[str]:
    yield "Goals:"
    yield from (f"- {goal_text(objective)}" for objective in search.settings.objectives)
    yield "Parameters:"
    yield from (f"- {parameter_text(parameter)}" for parameter in search.space.parameters)
    yield f"Trials so far ({len(search.trials)} of {search.settings.most_trials}):"
    yield from (trial_text(trial) for trial in told_trials(search))
    if best := best_trial(search):
        yield f"The best is trial {best.number}."
    if search.dialogue.notes:
        yield f"Your notes: {search.dialogue.notes}"
    for mistake in search.dialogue.mistakes:
        yield f"Your last answer could not be used: {mistake}"
    yield "Propose the next configuration."


def goal_text(objective: Objective) -> str:
    parts = [f"{objective.direction} {objective.metric}".strip()]
    if objective.at_most is not None:
        parts.append(f"at most {objective.at_most:g}")
    if objective.at_least is not None:
        parts.append(f"at least {objective.at_least:g}")
    return ", ".join(parts)


def parameter_text(parameter: Parameter) -> str:
    words = f"{json.dumps(parameter.key)}: {values_text(parameter)}"
    if parameter.when:
        words += f"; only for {when_text(parameter)}"
    if parameter.default is not None:
        words += f"; default {json.dumps(parameter.default)}"
    return words


def values_text(parameter: Parameter) -> str:
    """What a parameter may be, in words."""
    if isinstance(parameter, Range):
        return number_text(parameter)
    if isinstance(parameter, Choice):
        order = ", in this order" if parameter.is_ordered else ""
        return f"one of {json.dumps(list(parameter.options))}{order}"
    if isinstance(parameter, Subset):
        return f"a list of some of {options_text(parameter.options)}"
    if parameter.kind == "several":
        return "a list: " + "; ".join(map(values_text, cast(Any, parameter).parts))
    return f"null, or {values_text(cast(Any, parameter).inner)}"


def number_text(found: Range) -> str:
    kind = "a whole number" if found.is_int else "a number"
    scale = ", on a log scale" if found.is_log else ""
    steps = f" in steps of {found.step:g}" if found.step not in (None, 1) else ""
    limits = "".join(f", {limit.sign} {limit.key}" for limit in found.limits)
    return f"{kind} {range_text(found)}{steps}{scale}{limits}"


def told_trials(search: Search) -> list[Trial]:
    """All trials, or the best and the newest of very many, in their order."""
    trials = search.trials
    if len(trials) <= MOST_TRIALS:
        return list(trials)
    new = trials[-MOST_TRIALS // 2 :]
    old = [trial for trial in trials[: -MOST_TRIALS // 2] if trial.is_usable]
    old.sort(key=lambda trial: search.merit(trial, trial.results[-1]))
    best = sorted(old[: MOST_TRIALS // 2], key=lambda trial: trial.number)
    return [*best, *new]


def trial_text(trial: Trial) -> str:
    words = f"{trial.number}. {json.dumps(dict(trial.params))}: {trial.status.value}"
    if trial.is_usable:
        values = f"{words}, {json.dumps(dict(trial.results[-1].values))}"
        return f"{values}; {trial.note[:LONGEST_REASON]}" if trial.note else values
    return f"{words}, {trial.reason[:LONGEST_REASON]}" if trial.reason else words


def read_answer(search: Search, text: str) -> ModelAnswer:
    """The configuration of an answer. Raises AnswerMistake with what is wrong with it."""
    answer = json_of(text)
    params = answer.get("params")
    if not isinstance(params, dict):
        raise AnswerMistake('it has no object "params"')
    checked = checked_params(search, cast("dict[str, Any]", params))
    notes = answer.get("notes")
    return ModelAnswer(checked, notes[:LONGEST_NOTES] if isinstance(notes, str) else "")


def json_of(text: str) -> dict[str, Any]:
    """The object of an answer, also where it stands in a block of code or between words."""
    text = text[:LONGEST_ANSWER]
    fenced = FENCED.search(text)
    candidates = [text, fenced[1] if fenced else "", text[text.find("{") : text.rfind("}") + 1]]
    for candidate in candidates:
        try:
            found = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return cast("dict[str, Any]", found)
    raise AnswerMistake("it is no JSON object")


def checked_params(search: Search, params: Mapping[str, Any]) -> Params:
    """Values that are in the space, all there, and new. Raises AnswerMistake."""
    try:
        checked = search.space.check(params)
    except SpaceError as error:
        raise AnswerMistake(str(error)) from None
    for parameter in search.space.parameters:
        if parameter.key not in checked and applies(parameter, checked):
            raise AnswerMistake(f"it has no value for {parameter.key}")
    known = signature(checked)
    for trial in search.trials:
        if signature(trial.params) == known:
            raise AnswerMistake(f"trial {trial.number} had this configuration already")
    return checked
