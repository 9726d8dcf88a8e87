"""Silence: places that take a question and do not answer it.

Here: the time that a thread may spend on questions, and the time for which a silent place is not
asked again. Not here: how a transport notices that a place is silent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

REMEMBERED_SECONDS = 5.0

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)  # of time.monotonic()


@contextmanager
def within(seconds: float) -> Generator[None]:
    """Limit the time of all questions that this thread asks inside, however many there are: after
    it they raise Unreachable. Not for a generator: its caller would be limited, too.
    """
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def seconds_left(most: float = math.inf) -> float:
    """The seconds that this thread may still ask, at most `most`; 0 once its time is over."""
    return max(0.0, min(most, _deadline.get() - time.monotonic()))


class StillSilent(TimeoutError):
    """The place did not answer the last question, a moment ago, and was not asked this one."""


class Silence:
    """The remembered silence of one place. Safe to use from several threads.

    One command asks a place many questions. Only the first waits for an answer that does not come.
    """

    def __init__(self) -> None:
        self._remembered_until = -math.inf

    def begin(self) -> None:
        """The place has not answered a question in time."""
        self._remembered_until = time.monotonic() + REMEMBERED_SECONDS

    def end(self) -> None:
        """The place has answered."""
        self._remembered_until = -math.inf

    def refuse_question(self) -> None:
        """Raise StillSilent if the place was silent a moment ago."""
        if time.monotonic() < self._remembered_until:
            raise StillSilent("It did not answer a moment ago")
