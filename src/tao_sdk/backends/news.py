"""News: which attempts may have changed, so that nobody polls while nothing happens.

A backend that receives changes has its own News. For other backends NoNews says that everything
may have changed, so callers poll all attempts.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Protocol

from tao_sdk.model.plan import Ref


class News(Protocol):
    """The changes for one listener. Only one thread at a time may call it."""

    @property
    def tells(self) -> bool:
        """False while the backend cannot report changes: then everything may have changed."""
        ...

    def changed(self, refs: Sequence[Ref], seconds: float) -> Collection[Ref]:
        """Return the `refs` that may have changed since the last call, and all new ones.

        Waits for the first change, at most `seconds`. Never raises: if the backend cannot tell,
        everything may have changed. It may miss a change, so callers still look at every attempt
        now and then.
        """
        ...

    def grown(self, refs: Sequence[Ref]) -> Collection[Ref]:
        """Return the `refs` whose logs have grown since the last call, as far as known.

        Returns at once. Returns none if the backend would have to ask: callers still read logs now
        and then.
        """
        ...

    def close(self) -> None:
        """Stop listening."""
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
        """Do nothing: nothing is open."""
