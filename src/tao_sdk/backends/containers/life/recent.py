"""Recent: what a daemon had a moment ago, so that not every submit asks again.

Use it only for things whose absence shows: the daemon refuses a request for a thing that is gone,
and the caller then forgets the entry.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tao_sdk.transports.dockerd import FRESH

T = TypeVar("T")


@dataclass
class Recent(Generic[T]):
    """Name -> the value for it, for a few seconds. Safe to use from several threads."""

    _seen: dict[str, tuple[float, T]] = field(default_factory=dict[str, "tuple[float, T]"])

    def get(self, name: str) -> T | None:
        when, what = self._seen.get(name, (0.0, None))
        return what if time.monotonic() - when < FRESH else None

    def keep(self, name: str, what: T) -> T:
        self._seen[name] = (time.monotonic(), what)
        return what

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)
