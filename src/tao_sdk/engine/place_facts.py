"""Place facts: what a plan knows about its endpoint.

A submit needs an answer from the endpoint. A plan that is only shown can use assumed facts instead,
and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tao_sdk.backends.contract import AnyBackend, AssumesFacts
from tao_sdk.model.errors import (
    ControllerSilent,
    LoginUnusable,
    TaoError,
    Unreachable,
    join_sentences,
)
from tao_sdk.model.finding import Finding, warning
from tao_sdk.model.prepared_job import PreparedJob

NOT_ASKED = "plan.not_asked"
NO_ANSWER = (Unreachable, LoginUnusable, ControllerSilent)


class PlaceFacts(NamedTuple):
    """The backend's facts. `findings` says why they are assumed; () where the place answered."""

    facts: Any
    findings: tuple[Finding, ...] = ()

    @property
    def asked(self) -> bool:
        """True if the place answered."""
        return not self.findings


FactsSource = Callable[[AnyBackend, PreparedJob, Any], PlaceFacts]


def ask_place(backend: AnyBackend, job: PreparedJob, options: Any) -> PlaceFacts:
    """The facts of the place. Raises Unreachable."""
    return PlaceFacts(backend.survey(job, options))


def ask_or_assume(backend: AnyBackend, job: PreparedJob, options: Any) -> PlaceFacts:
    """The facts of the place, or assumed ones where it does not answer."""
    try:
        return ask_place(backend, job, options)
    except NO_ANSWER as error:
        if not isinstance(backend, AssumesFacts):
            raise
        assumed = backend.assume_facts(job, options)
        return PlaceFacts(assumed.facts, (not_asked(assumed.words, error),))


def not_asked(words: str, error: TaoError) -> Finding:
    why = join_sentences(error.what, error.why)
    return warning(NOT_ASKED, f"Not asked: {words}", why, error.next, error.command)
