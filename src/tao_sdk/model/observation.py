"""Observations: what a backend says about attempts, as it says it.

Here: the records. Not here: what follows from one (model/status.py) or how a backend's words become
one (backends/*/parse.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from tao_sdk.model.clock import utc_now
from tao_sdk.model.reasons import Reason


class Phase(str, Enum):
    """The place of an attempt in its life. ABSENT: a look did not find it. UNREACHABLE: no look was
    possible.
    """

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    UNKNOWN = "unknown"  # looked, and the backend used a word we do not know; it is in `raw`
    ABSENT = "absent"
    UNREACHABLE = "unreachable"

    @property
    def ended(self) -> bool:
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELED)

    @property
    def over(self) -> bool:
        """True if nothing of it runs any more: it has ended, or is gone."""
        return self.ended or self is Phase.ABSENT


@dataclass(frozen=True)
class Observation:
    """A backend's words about one attempt now."""

    phase: Phase
    raw: str  # the backend's own words, shown to people, never interpreted again
    exit_code: int | None = None  # of the command; 128 + n when signal n ended it
    reason: str = ""  # why it waits or failed, for people
    started_at: datetime | None = None
    ended_at: datetime | None = None
    seen_at: datetime = field(default_factory=utc_now)
    reason_code: Reason | None = None  # the same for programs: what decisions read
    # the backend's own words for the reason, unchanged; only its rules read them
    backend_words: str = ""
    expected_start: datetime | None = None  # of a waiting attempt, as the backend estimates it
    stopped_pids: tuple[int, ...] = ()  # processes that somebody has stopped (SIGSTOP)
    # `reason` says why an attempt is absent. It holds only if the attempt had ended by then.
    ended_by: datetime | None = None


@dataclass(frozen=True)
class Outcome:
    """The end of an attempt by its own record: the manifest, or an exit-code file, that outlives
    the container.
    """

    whole: bool  # the record is of this attempt and was written after the command had ended
    exit_code: int | None
