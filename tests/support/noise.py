"""Noise: every sentence of ours replaced by words that mean nothing, for tests that show that no
decision reads one.

Here: what carries our sentences. Not here: a backend's own words, which its rules do read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from tao_sdk.engine import rules as general_rules
from tao_sdk.model import words
from tao_sdk.model.diagnosis import Evidence, NodeEvent
from tao_sdk.model.errors import TaoError
from tao_sdk.model.finding import Finding
from tao_sdk.model.observation import Observation
from tao_sdk.model.reasons import Reason
from tao_sdk.model.rule import Rule
from tao_sdk.runner import events
from tao_sdk.runner.events import Event
from tao_sdk.store.records import NewEvent

NOISE = "xq zzk wvv"

# What carries a sentence of ours, and in which fields.
SENTENCES: dict[type, tuple[str, ...]] = {
    Observation: ("raw", "reason"),
    Evidence: ("raw", "reason"),
    NodeEvent: ("message",),
    Finding: ("what", "why", "next"),
    NewEvent: ("raw",),
}


def say_noise(monkeypatch: pytest.MonkeyPatch, *backends_rules: ModuleType) -> None:
    """Replace our sentences until the test is over. `backends_rules`: modules with RULES."""
    monkeypatch.setattr(words, "SENTENCES", dict.fromkeys(Reason, NOISE))
    monkeypatch.setattr(words, "IN_PLACE", {})
    for module in (general_rules, *backends_rules):
        monkeypatch.setattr(module, "RULES", rules_with_noise(module.RULES))
    for carrier, fields in SENTENCES.items():
        monkeypatch.setattr(carrier, "__init__", with_noise(carrier.__init__, fields))
    monkeypatch.setattr(TaoError, "__init__", with_noise_for_words(TaoError.__init__))
    monkeypatch.setattr(events, "parse_event", with_noise_for_facts(events.parse_event))


def rules_with_noise(rules: Sequence[Rule]) -> list[Rule]:
    return [replace(rule, what=NOISE, next=NOISE, next_without={}) for rule in rules]


def with_noise(plain: Callable[..., None], fields: Sequence[str]) -> Callable[..., None]:
    """The initializer of a frozen dataclass that says noise in these fields, where they say
    something.
    """

    def says_noise(record: Any, *given: Any, **named: Any) -> None:
        plain(record, *given, **named)
        for name in fields:
            if getattr(record, name):
                object.__setattr__(record, name, NOISE)

    return says_noise


def with_noise_for_words(plain: Callable[..., None]) -> Callable[..., None]:
    """The initializer of an error that keeps its command and says noise."""

    def says_noise(
        error: TaoError, what: str, why: str = "", next: str = "", command: str = ""
    ) -> None:
        plain(error, NOISE, NOISE, NOISE, command)

    return says_noise


def with_noise_for_facts(plain: Callable[[bytes], Event | None]) -> Callable[[bytes], Event | None]:
    """The reader of the runner's events that finds noise where a sentence stood."""

    def reads_noise(line: bytes) -> Event | None:
        event = plain(line)
        if event is not None:
            event.facts.update(
                {name: NOISE for name in ("what", "why", "next") if event.facts.get(name)}
            )
        return event

    return reads_noise
