"""Findings: the results of checks before submit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tao_sdk.model.errors import Refused, TaoError, advice_with, join_sentences


class Severity(str, Enum):
    """ERROR stops the submit; WARNING is shown and the job goes on; OK is a doctor's good news."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """One result of a check: how bad, what, why (the evidence), and what to do next.

    `command` is a shell line that mends it and can be run as it stands; `next` ends with it.
    """

    severity: Severity
    code: str
    what: str
    why: str = ""
    next: str = ""
    command: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "next", advice_with(self.command, self.next))

    @classmethod
    def of_error(cls, error: TaoError, what: str = "") -> Finding:
        """The error as a finding, in its own words; `what` replaces the error's `what`."""
        return cls(
            Severity.ERROR, error.code, what or error.what, error.why, error.next, error.command
        )

    @property
    def evidence(self) -> str:
        """The documents' name for `why`."""
        return self.why

    @property
    def fix(self) -> str:
        """The documents' name for `next`."""
        return self.next

    @property
    def text(self) -> str:
        """The finding in one line: what, why, and what to do."""
        return join_sentences(self.what, self.why) + (f" -> {self.next}" if self.next else "")

    def to_json(self) -> dict[str, str]:
        """The finding object of `--json`: next (and fix, its older name) is a command or empty,
        hint says in words what to do.
        """
        hint = "" if self.command == self.next else self.next
        return {
            "severity": self.severity.value, "code": self.code, "what": self.what,
            "evidence": self.why, "fix": self.command, "next": self.command, "hint": hint,
        }  # fmt: skip


def error(code: str, what: str, why: str, next: str = "", command: str = "") -> Finding:
    return Finding(Severity.ERROR, code, what, why, next, command)


def warning(code: str, what: str, why: str, next: str = "", command: str = "") -> Finding:
    return Finding(Severity.WARNING, code, what, why, next, command)


def refuse_errors(findings: Iterable[Finding]) -> None:
    """Raise Refused with the first error among the findings, and how many more there are."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        first = errors[0]
        what = first.what
        if len(errors) > 1:
            others = "; ".join(error.what for error in errors[1:])
            what = f"{what} ({len(errors) - 1} more: {others})"
        refused = Refused(what, first.why, first.next, first.command)
        refused.code = first.code
        raise refused
