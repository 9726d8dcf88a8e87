"""What a daemon was seen to have a moment ago: not asked again by one submit after another.

Only for what proves itself: who relies on it is told by the daemon's refusal when it has gone, and
forgets it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tao_sdk.transports.dockerd import FRESH

T = TypeVar("T")


@dataclass
class Recent(Generic[T]):
    """Name -> what was seen of it, for a few seconds. Safe to use from several threads."""

    _seen: dict[str, tuple[float, T]] = field(default_factory=dict[str, "tuple[float, T]"])

    def get(self, name: str) -> T | None:
        when, what = self._seen.get(name, (0.0, None))
        return what if time.monotonic() - when < FRESH else None

    def keep(self, name: str, what: T) -> T:
        self._seen[name] = (time.monotonic(), what)
        return what

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)
