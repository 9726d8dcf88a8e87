"""Rule: one way in which evidence explains a failed or waiting job, and the looks that rules are
made of.

Here: what a rule is. Not here: the rules. The general ones are in engine/rules.py, a backend's own
in its folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tao_sdk.model.diagnosis import Diagnosis, ErrClass, Evidence, NodeEvent
from tao_sdk.model.errors import sentences
from tao_sdk.model.reasons import Reason

Looks = Callable[[Evidence], str | None]
MENDED = "that is mended"


class RunnerWords(str):
    """What the runner itself has said, in an event of its own: seen by `runner_failed`."""


@dataclass(frozen=True)
class Rule:
    """`cause` and `suggestion` may use {seen}, the first line of what the rule saw.

    `limit` names the setting that was hit; the cause may use {limit}, its value in brackets.
    `after` is what has to happen before trying again can help; where nothing is said, that depends
    on whose fault it is.
    """

    name: str
    looks: Looks
    cause: str
    err_class: ErrClass
    suggestion: str
    retryable: bool = False
    limit: str = ""
    after: str = ""

    def apply(self, evidence: Evidence) -> Diagnosis | None:
        seen = self.looks(evidence)
        if seen is None:
            return None
        first = seen.strip().splitlines()[0] if seen.strip() else ""
        return Diagnosis(
            what=self.cause.replace("{seen}", first).replace(
                "{limit}", limit_hit(evidence, self.limit)
            ),
            err_class=self.err_class,
            next=self.suggestion.replace("{seen}", first),
            retryable=self.retryable,
            why=seen,
            rule=self.name,
            events=cause_first(evidence, seen, NodeEvent(self.name, first)),
            by_runner=isinstance(seen, RunnerWords),
            after=self.needed_first,
            reason_code=evidence.reason_code,
        )

    @property
    def needed_first(self) -> str:
        """What has to happen before trying again can help; "" where nothing is known to."""
        return self.after or (MENDED if self.err_class is ErrClass.INFRA else "")


def limit_hit(evidence: Evidence, name: str) -> str:
    """` (64m)`, or nothing where no limit was asked for."""
    value = evidence.limits.get(name, "")
    return f" ({value})" if value else ""


EVENT_OF = {Reason.OUT_OF_MEMORY: "OOMKilled"}  # the event that tells the same as a reason


def cause_first(evidence: Evidence, seen: str, recognized: NodeEvent) -> tuple[NodeEvent, ...]:
    """What the rule recognized, then the place's own events. One of those that the rule recognized
    is not doubled.
    """
    own = event_seen(evidence, seen)
    if own is None:
        return (recognized, *evidence.events)
    return (own, *(event for event in evidence.events if event is not own))


def event_seen(evidence: Evidence, seen: str) -> NodeEvent | None:
    """The event that a rule saw, or the one that tells the same as the reason that it saw."""
    code = evidence.reason_code
    name = EVENT_OF.get(code) if code and seen == evidence.reason else None
    return next(
        (
            event
            for event in evidence.events
            if event.node_event_name == name or shown(event) == seen
        ),
        None,
    )


def shown(event: NodeEvent) -> str:
    """`OOMKilled: the kernel ended a process`."""
    return f"{event.node_event_name}: {event.message}"


def in_log(pattern: str) -> Looks:
    """The last line of the log that matches; with a traceback the last one is what ended the
    program.
    """
    compiled = re.compile(pattern)

    def looks(evidence: Evidence) -> str | None:
        lines = evidence.log_tail.splitlines()
        return next((line.strip() for line in reversed(lines) if compiled.search(line)), None)

    return looks


def runner_failed(
    prefix: str, host: str = "", parts: Sequence[str] = ("what", "why", "next")
) -> Looks:
    """The runner's own "failed" event, when its code starts with `prefix` and its host matches
    `host`.

    `parts` of it are seen: a rule that says itself what to do leaves the event's `next` out.
    """
    compiled = re.compile(host)

    def looks(evidence: Evidence) -> str | None:
        for event in reversed(evidence.runner):
            told = event.get("event") == "failed" and str(event.get("code", "")).startswith(prefix)
            if told and compiled.search(str(event.get("host") or "")):
                return RunnerWords(sentences(*(str(event.get(part) or "") for part in parts)))
        return None

    return looks


def exit_code(*codes: int) -> Looks:
    return lambda evidence: (
        f"exit code {evidence.exit_code}" if evidence.exit_code in codes else None
    )


def because(*reasons: Reason) -> Looks:
    """The sentence of the reason, when it is one of these."""
    return lambda evidence: evidence.reason if evidence.reason_code in reasons else None


def event_named(*names: str) -> Looks:
    """The first event under one of these names, which are the place's own or ours, never a
    sentence.
    """

    def looks(evidence: Evidence) -> str | None:
        return next(
            (shown(event) for event in evidence.events if event.node_event_name in names), None
        )

    return looks


def backend_says(pattern: str) -> Looks:
    """The first of the place's own words that match."""
    compiled = re.compile(pattern, re.IGNORECASE)

    def looks(evidence: Evidence) -> str | None:
        words = [evidence.backend_words, *map(shown, evidence.events)]
        return next((word for word in words if compiled.search(word)), None)

    return looks


def all_of(*every: Looks) -> Looks:
    """What the last one saw, when all see something."""

    def looks(evidence: Evidence) -> str | None:
        seen = [one(evidence) for one in every]
        return seen[-1] if all(s is not None for s in seen) else None

    return looks


def any_of(*some: Looks) -> Looks:
    return lambda evidence: next(
        (seen for one in some if (seen := one(evidence)) is not None), None
    )


def first_match(rules: Sequence[Rule], evidence: Evidence) -> Diagnosis | None:
    """The answer of the first rule that has one."""
    return next((found for rule in rules if (found := rule.apply(evidence))), None)
