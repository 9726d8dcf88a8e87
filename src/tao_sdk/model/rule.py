"""Rule: one way in which evidence explains a failed or waiting job, and the conditions of rules.

Here: what a rule is. Not here: the rules. The general ones are in engine/rules.py, a backend's own
in its folder.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tao_sdk.model.diagnosis import Diagnosis, ErrClass, Evidence, NodeEvent
from tao_sdk.model.errors import join_sentences
from tao_sdk.model.lazy_pattern import lazy_compile
from tao_sdk.model.module_names import package_words
from tao_sdk.model.reasons import Reason

Condition = Callable[[Evidence], str | None]
"""Looks at evidence. Returns the text that it recognized, or None."""

AFTER_MENDING = "that is mended"


class RunnerWords(str):
    """The runner's own words, from one of its events. `runner_failed` returns them."""


@dataclass(frozen=True)
class Rule:
    """A condition, and the diagnosis if it holds.

    `what` and `next` may use {seen}, the first line of the text that `when` recognized. `limit`
    names the setting that was hit, and `what` may use {limit}, its value in brackets. `after` says
    what has to happen before a retry can help. Without it, that depends on `fault`.

    `next_without` has, by field, the advice for a platform that does not use that field of a job.
    It and `next` may also use {package}, what to install for the module that {seen} names,
    {own_module}, the path of that module here, {job}, the job's id, and the names in the evidence.
    """

    code: str
    when: Condition
    what: str
    fault: ErrClass
    next: str
    retryable: bool = False
    limit: str = ""
    after: str = ""
    next_without: Mapping[str, str] = field(default_factory=dict[str, str])

    def choose_advice(self, unused: Collection[str]) -> str:
        """The advice for a platform that does not use these fields of a job."""
        for name, advice in self.next_without.items():
            if name in unused:
                return advice
        return self.next

    def apply(self, evidence: Evidence) -> Diagnosis | None:
        """Return the diagnosis, or None if the rule does not apply."""
        seen = self.when(evidence)
        if seen is None:
            return None
        headline = first_line(seen)
        limit = limit_hit(evidence, self.limit)
        return Diagnosis(
            what=self.what.replace("{seen}", headline).replace("{limit}", limit),
            err_class=self.fault,
            next=filled(self.choose_advice(evidence.unused_fields), headline, evidence),
            retryable=self.retryable,
            why=seen,
            rule=self.code,
            events=with_recognized(evidence, seen, NodeEvent(self.code, headline)),
            by_runner=isinstance(seen, RunnerWords),
            after=self.needed_first,
            reason_code=evidence.reason_code,
        )

    @property
    def needed_first(self) -> str:
        """The clause that says what has to happen before a retry can help; "" if that is not
        known.
        """
        if self.after:
            return self.after
        if self.fault is not ErrClass.INFRA:
            return ""
        return AFTER_MENDING


def filled(advice: str, headline: str, evidence: Evidence) -> str:
    """Fill {seen}, {package}, {own_module}, {job} and the backend's names into the advice."""
    values = {
        **evidence.names,
        "package": package_words(headline),
        "own_module": shlex.quote(evidence.own_module),
        "job": evidence.job_id,
        "seen": headline,
    }
    return re.sub(r"\{(\w+)\}", lambda name: values.get(name[1], name[0]), advice)


def first_line(text: str) -> str:
    """The first line of the text, without the white space around the text; "" if it is blank."""
    lines = text.strip().splitlines()
    if not lines:
        return ""
    return lines[0]


def limit_hit(evidence: Evidence, name: str) -> str:
    """` (64m)`; "" if no limit was requested or the platform sets none."""
    if name in evidence.unused_fields:
        return ""
    value = evidence.limits.get(name, "")
    if not value:
        return ""
    return f" ({value})"


EVENT_OF = {Reason.OUT_OF_MEMORY: "OOMKilled"}  # the event that means the same as a reason


def with_recognized(evidence: Evidence, seen: str, recognized: NodeEvent) -> tuple[NodeEvent, ...]:
    """Return the recognized event, then the backend's own events.

    If the rule recognized one of the backend's events, that one comes first instead, and once.
    """
    own = event_seen(evidence, seen)
    if own is None:
        return (recognized, *evidence.events)
    return (own, *(event for event in evidence.events if event is not own))


def event_seen(evidence: Evidence, seen: str) -> NodeEvent | None:
    """The event that a rule recognized, or one that means the same as the recognized reason; None
    if there is none.
    """
    code = evidence.reason_code
    name = EVENT_OF.get(code) if code and seen == evidence.reason else None
    for event in evidence.events:
        if event.node_event_name == name or event_text(event) == seen:
            return event
    return None


def event_text(event: NodeEvent) -> str:
    """`OOMKilled: the kernel ended a process`."""
    return f"{event.node_event_name}: {event.message}"


def log_says(*patterns: str) -> Condition:
    """Recognize the last line of the log that matches one of the patterns.

    After a traceback, the last such line is what ended the program.
    """
    compiled = lazy_compile("|".join(patterns))

    def condition(evidence: Evidence) -> str | None:
        for line in reversed(evidence.log_tail.splitlines()):
            if compiled.search(line):
                return line.strip()
        return None

    return condition


def runner_failed(
    *codes: str, host: str = "", parts: Sequence[str] = ("what", "why", "next")
) -> Condition:
    """Recognize the runner's newest "failed" event whose code starts with one of `codes`, or any
    without them.

    `host` is a pattern that the event's host has to match. `parts` of the event are returned: a
    rule with its own advice leaves the event's `next` out.
    """
    prefixes = codes or ("",)
    compiled = lazy_compile(host)

    def condition(evidence: Evidence) -> str | None:
        for event in reversed(evidence.runner):
            if event.get("event") != "failed":
                continue
            code, where = str(event.get("code", "")), str(event.get("host") or "")
            if code.startswith(prefixes) and compiled.search(where):
                return RunnerWords(join_sentences(*(str(event.get(part) or "") for part in parts)))
        return None

    return condition


def exit_code(*codes: int) -> Condition:
    """Recognize one of these exit codes of the command: `exit code 137`."""

    def condition(evidence: Evidence) -> str | None:
        code = evidence.exit_code
        if code not in codes:
            return None
        return f"exit code {code}"

    return condition


def reason_is(*reasons: Reason) -> Condition:
    """Recognize one of these reasons, and return the reason's sentence."""

    def condition(evidence: Evidence) -> str | None:
        if evidence.reason_code not in reasons:
            return None
        return evidence.reason

    return condition


def event_named(*names: str) -> Condition:
    """Recognize the first event with one of these names. They are the backend's or ours, never a
    sentence.
    """

    def condition(evidence: Evidence) -> str | None:
        for event in evidence.events:
            if event.node_event_name in names:
                return event_text(event)
        return None

    return condition


def backend_says(*patterns: str) -> Condition:
    """Recognize the first of the backend's own words that match one of the patterns, in any case.

    Returns the words with the backend's task before them. The task is not searched.
    """
    compiled = lazy_compile("|".join(patterns), re.IGNORECASE)

    def condition(evidence: Evidence) -> str | None:
        if compiled.search(evidence.backend_words):
            return with_task(evidence.backend_task, evidence.backend_words)
        for words in map(event_text, evidence.events):
            if compiled.search(words):
                return words
        return None

    return condition


def with_task(task: str, words: str) -> str:
    """`pulling IMAGE: no such host`; the words alone if no task is known."""
    if task:
        return f"{task}: {words}"
    return words


def all_of(*conditions: Condition) -> Condition:
    """Require that all conditions recognize something. Returns what the last one recognized."""

    def condition(evidence: Evidence) -> str | None:
        seen = None
        for one in conditions:
            seen = one(evidence)
            if seen is None:
                return None
        return seen

    return condition


def any_of(*conditions: Condition) -> Condition:
    """Return what the first condition recognizes that recognizes anything."""

    def condition(evidence: Evidence) -> str | None:
        for one in conditions:
            seen = one(evidence)
            if seen is not None:
                return seen
        return None

    return condition


def first_match(rules: Sequence[Rule], evidence: Evidence) -> Diagnosis | None:
    """Return the diagnosis of the first rule that applies; None if none does."""
    for rule in rules:
        diagnosis = rule.apply(evidence)
        if diagnosis is not None:
            return diagnosis
    return None
