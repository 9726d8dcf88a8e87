"""Replica: one rank of a job as its backend shows it, in the form of TAO's documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Replica:
    """One rank. `issue_reason` is "" if nothing keeps it from running."""

    rank: int
    name: str  # its name at the place; "" if it has not been created
    node: str  # "" where it has none
    phase: str  # the place's own word
    issue_reason: str = ""
    issue_message: str = ""
    restarts: int = 0
    exit_code: int | None = None

    @property
    def source(self) -> str:
        """Its name and its node, for a line before its log; "" if it has no name."""
        if not self.name:
            return ""
        return ", ".join(part for part in (self.name, self.node) if part)

    def redacted(self, redact: Callable[[str], str]) -> Replica:
        """Return the replica without the values that `redact` takes out."""
        return replace(self, issue_message=redact(self.issue_message))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "rank": self.rank,
            "status": {
                "phase": self.phase,
                "readiness_issue": self._issue(),
                "node": {"name": self.node, "node_group_id": ""},
                "restarts": self.restarts,
                "exit_code": self.exit_code,
            },
        }

    def _issue(self) -> dict[str, str] | None:
        if not self.issue_reason:
            return None
        return {"reason": self.issue_reason, "message": self.issue_message}
