"""Findings: what a check saw before submit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tao_sdk.model.errors import Refused, command_in, sentences


class Severity(str, Enum):
    """ERROR stops the submit; WARNING is shown and the job goes on; OK is a doctor's good news."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """One thing a check saw: how bad, what, by what evidence, and the command that mends it, else what to do in words."""

    severity: Severity
    code: str
    what: str
    evidence: str = ""
    fix: str = ""

    @property
    def text(self) -> str:
        """What, by what evidence, and what to do, in one line."""
        return sentences(self.what, self.evidence) + (f" -> {self.fix}" if self.fix else "")

    def to_json(self) -> dict[str, str]:
        """The finding object of `--json`: next (and fix, its older name) is a command or empty, hint what to do in words."""
        command = self.fix if is_shell_line(self.fix) else command_in(self.fix)
        hint = "" if command == self.fix else self.fix
        return {
            "severity": self.severity.value, "code": self.code, "what": self.what,
            "evidence": self.evidence, "fix": command, "next": command, "hint": hint,
        }  # fmt: skip


SETTING = re.compile(r"export [A-Z_]+=[^\s.]\S*")  # not export NAME=...


def is_shell_line(text: str) -> bool:
    """Whether it can be pasted into a shell as it stands: a command, several that are joined by &&, or an export."""
    parts = re.sub(r"'[^']*'", "quoted", text).split(" && ")
    return all(SETTING.fullmatch(part) or command_in(part) == part != "" for part in parts)


def error(code: str, what: str, evidence: str, fix: str) -> Finding:
    return Finding(Severity.ERROR, code, what, evidence, fix)


def warning(code: str, what: str, evidence: str, fix: str) -> Finding:
    return Finding(Severity.WARNING, code, what, evidence, fix)


def refuse_errors(findings: Iterable[Finding]) -> None:
    """Raises Refused with the first error among the findings, and how many more there are."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        first = errors[0]
        more = f" ({len(errors) - 1} more: {'; '.join(e.what for e in errors[1:])})" if len(errors) > 1 else ""
        refused = Refused(first.what + more, first.evidence, first.fix)
        refused.code = first.code
        raise refused
