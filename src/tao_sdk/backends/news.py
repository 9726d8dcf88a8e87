"""News: which attempts may have changed, so that nobody asks while nothing happens.

A backend that is told of changes gives its own News. What is said here of a backend that cannot
tell makes everybody look at all of its attempts again and again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Protocol

from tao_sdk.model.plan import Ref


class News(Protocol):
    """What one listener hears. It is asked by one thread at a time."""

    @property
    def tells(self) -> bool:
        """False while changes cannot be told: then everything may have changed."""
        ...

    def changed(self, refs: Sequence[Ref], seconds: float) -> Collection[Ref]:
        """Those of `refs` that may have changed since the last call; all that were not asked about
        before.

        Returns as soon as there is one, or after `seconds`. Never raises: what cannot be told may
        have changed. It may miss a change: every attempt is looked at now and then all the same.
        """
        ...

    def grown(self, refs: Sequence[Ref]) -> Collection[Ref]:
        """Those of `refs` whose log is known to have grown since the last call. Returns at once.

        None where that would have to be asked: logs are read now and then all the same.
        """
        ...

    def close(self) -> None:
        """Nobody listens any more."""
        ...


class NoNews:
    """For a backend that cannot tell: everything may have changed."""

    tells = False

    def changed(self, refs: Sequence[Ref], seconds: float) -> Collection[Ref]:
        time.sleep(seconds)
        return refs

    def grown(self, refs: Sequence[Ref]) -> Collection[Ref]:
        return refs

    def close(self) -> None:
        """Nothing is open."""
