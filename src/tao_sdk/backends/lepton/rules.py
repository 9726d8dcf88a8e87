"""Diagnosis rules for failures that only a Lepton workspace causes. They run before the general
rules. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tao_sdk.backends.image_name import NGC
from tao_sdk.model.diagnosis import Diagnosis, ErrClass, Evidence, NodeEvent
from tao_sdk.model.errors import Refused
from tao_sdk.model.rule import Condition, Rule, backend_says, event_named, event_text, first_match

INFRA, USER = ErrClass.INFRA, ErrClass.USER
PULL_SECRETS = "/imagepullsecrets"  # the path of the workspace's pull secrets
NODE = "node: "  # begins the name of an event that a node reported; others are of replicas


def node_event(name: str, message: str) -> NodeEvent:
    return NodeEvent(f"{NODE}{name}", message)


def node_says() -> Condition:
    """Recognize the first event that a node reported."""

    def condition(evidence: Evidence) -> str | None:
        for event in evidence.events:
            if event.node_event_name.startswith(NODE):
                return event_text(event)
        return None

    return condition


def while_waiting(condition: Condition) -> Condition:
    """The condition, but blind to events once the attempt has ended."""

    def seen(evidence: Evidence) -> str | None:
        return condition(evidence if evidence.waits else replace(evidence, events=()))

    return seen


RULES: Sequence[Rule] = (
    Rule(
        code="lepton.preempted",
        when=event_named("Preempting", f"{NODE}Preempting", f"{NODE}Preempted"),
        what="A job of higher priority took the job's nodes.",
        fault=INFRA,
        next="Submit it again, or with --retries 3; --priority-class gives it a higher priority.",
        retryable=True,
    ),
    Rule(
        code="lepton.node_failed",
        when=node_says(),
        what="A node of the job failed: {seen}.",
        fault=INFRA,
        next="Submit it again, or with --retries 3.",
        retryable=True,
    ),
    Rule(
        code="lepton.config",
        when=event_named("ConfigError", "DeploymentConfigError"),
        what="The workspace cannot run the job as it is asked for: {seen}.",
        fault=USER,
        next="Correct its mounts, secrets or image. See what the workspace has: tao doctor lepton",
    ),
    Rule(
        code="lepton.no_capacity",
        when=while_waiting(event_named("NoCapacity", "WaitingForCapacity")),
        what="The node group has no room for the job now: {seen}.",
        fault=INFRA,
        next="Wait, or choose another group or shape. See which GPUs are free: tao doctor lepton",
        after="GPUs are free",
    ),
    Rule(
        code="lepton.pulling",
        when=while_waiting(event_named("InProgress")),
        what="The nodes prepare the job: {seen}.",
        fault=INFRA,
        next="Wait. A large image takes minutes on a node that does not have it.",
        after="they are ready",
    ),
    Rule(
        code="lepton.no_right",
        when=backend_says(r"no permission", r"forbidden", r"not allowed"),
        what="The workspace does not allow it: {seen}.",
        fault=USER,
        next="Ask who runs the workspace for the right. What you may use: tao doctor lepton",
    ),
)


def diagnose(evidence: Evidence) -> Diagnosis | None:
    return first_match(RULES, evidence)


def refused(words: str, request: str) -> Refused:
    """The refusal of a workspace to create a job, in its words. `request`: what it refused, such as
    `POST /jobs`.
    """
    fix = "See what it has: tao doctor lepton"
    if request.endswith(PULL_SECRETS):
        fix = "Use --pull-secret none, or ask who runs the workspace for the right."
    error = Refused(f"The workspace refused the job ({request}).", words, fix)
    error.backend_words = words
    return error


def missing_key() -> Refused:
    return Refused(
        "NGC_KEY is not set.",
        f"The job was planned with a pull secret for {NGC} that is made of it.",
        "Export NGC_KEY, or use --pull-secret none.",
    )
