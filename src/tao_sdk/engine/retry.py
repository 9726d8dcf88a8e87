"""Retry: decide if a failed attempt is tried again. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tao_sdk.model.diagnosis import Diagnosis

FIRST_WAIT_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 300.0


@dataclass(frozen=True)
class RetryPolicy:
    """`budget` is how many further attempts a job may have in all."""

    budget: int = 0

    def again(self, attempt: int, diagnosis: Diagnosis | None, cancel_asked: bool = False) -> bool:
        """True if another attempt follows attempt `attempt` (1, 2, ...): an infrastructure failure,
        budget left, and no cancel requested.
        """
        return bool(
            diagnosis and diagnosis.retryable and attempt <= self.budget and not cancel_asked
        )


def is_due(at: datetime, now: datetime) -> bool:
    """True if the time of a further attempt has come. If it is further ahead than any wait, the
    clock was set back, and the attempt is due.
    """
    return now >= at or at - now > timedelta(seconds=LONGEST_WAIT_SECONDS)


def wait_before(attempt: int) -> float:
    """Seconds to wait before attempt `attempt` (2, 3, ...): 5, 10, 20, ... at most 300."""
    return min(FIRST_WAIT_SECONDS * 2 ** (attempt - 2), LONGEST_WAIT_SECONDS)
