"""Statuses: the states of a job, and the one rule by which they change.

Here: Status, and `advance`, which turns a backend's observation into what follows. Not here: how a
backend's words become an Observation (backends/*/parse.py), and the code that stores the result
(engine/look.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from tao_sdk.model import words
from tao_sdk.model.observation import Observation, Outcome, Phase
from tao_sdk.model.reasons import Reason
from tao_sdk.model.words import Why


class Status(str, Enum):
    """A job's status. Complete, Error and Canceled are terminal: no look changes them, only a retry
    that a person asks for.
    """

    PENDING = "Pending"
    RUNNING = "Running"
    PAUSED = "Paused"
    COMPLETE = "Complete"
    ERROR = "Error"
    CANCELED = "Canceled"
    UNKNOWN = "Unknown"

    __str__ = str.__str__

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({Status.COMPLETE, Status.ERROR, Status.CANCELED})

# Each phase that decides the job's status -> that status. ABSENT and UNREACHABLE say nothing by
# themselves.
STATUS_OF = {
    Phase.PENDING: Status.PENDING,
    Phase.RUNNING: Status.RUNNING,
    Phase.PAUSED: Status.PAUSED,
    Phase.SUCCEEDED: Status.COMPLETE,
    Phase.FAILED: Status.ERROR,
    Phase.CANCELED: Status.CANCELED,
    Phase.UNKNOWN: Status.UNKNOWN,
}

LOOKS_BEFORE_GONE = 2  # absent in two looks after having been seen: the backend has forgotten it


@dataclass(frozen=True)
class Standing:
    """The state of a job: its status, the words beside it, and the facts for judging the next
    look.
    """

    status: Status
    message: str = ""
    exit_code: int | None = None
    cancel_asked: bool = False
    absent_looks: int = 0
    reason_code: Reason | None = None  # why, for programs; the message says it to people
    next_attempt_at: datetime | None = None  # when the attempt that follows a failed one is due

    def with_reason(self, why: Why) -> Standing:
        """Return the standing with another reason and its sentence."""
        return replace(self, reason_code=why.code, message=why.text)


def advance(standing: Standing, seen: Observation, outcome: Outcome | None = None) -> Standing:
    """Return the standing that follows from one observation. Pure; the only place where a status
    changes.

    `outcome` is the attempt's record that outlives the backend's own (its manifest or exit-code
    file). Only if the backend looked and found nothing does the caller ask for it.
    """
    if standing.status.terminal:
        return standing
    if seen.phase is Phase.UNREACHABLE:
        return standing.with_reason(words.why(Reason.NOT_SEEN, what=seen.reason or seen.raw))
    if seen.phase is Phase.ABSENT:
        return _after_absent(standing, seen, outcome)
    return _after_seen(standing, seen)


def _after_seen(standing: Standing, seen: Observation) -> Standing:
    status = _as_requested(standing, STATUS_OF[seen.phase])
    now = replace(
        standing, status=status, exit_code=seen.exit_code, absent_looks=0, next_attempt_at=None
    )
    return now.with_reason(Why(seen.reason_code, seen.reason or seen.raw))


def _after_absent(standing: Standing, seen: Observation, outcome: Outcome | None) -> Standing:
    looks = standing.absent_looks + 1
    now = replace(standing, absent_looks=looks, next_attempt_at=None)
    if looks < LOOKS_BEFORE_GONE:
        code = Reason.REMOVED_OUTSIDE if seen.reason else Reason.NOT_FOUND
        return now.with_reason(Why(code, words.why(Reason.NOT_FOUND).text))
    if outcome is None or not outcome.whole:
        now = replace(now, status=_as_requested(standing, Status.ERROR))
        own = Why(Reason.REMOVED_OUTSIDE, seen.reason)  # the backend may know who removed it
        return now.with_reason(own if seen.reason else words.why(Reason.REMOVED_OUTSIDE))
    status = Status.COMPLETE if outcome.exit_code == 0 else _as_requested(standing, Status.ERROR)
    now = replace(now, status=status, exit_code=outcome.exit_code)
    return now.with_reason(words.why(Reason.TOLD_BY_RECORD))


def _as_requested(standing: Standing, status: Status) -> Status:
    """Return Canceled for a failure after a cancel request. Any other status is returned as
    it is.
    """
    if status is Status.ERROR and standing.cancel_asked:
        return Status.CANCELED
    return status
