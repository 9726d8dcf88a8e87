"""Pace: the interval between looks at an endpoint. It starts as short as is polite there, and grows
while nothing changes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

SLOWEST_SECONDS = 60.0  # between the looks of a watcher


@dataclass
class Pace:
    """The interval between looks: `shortest` seconds after a change, then longer by the factor
    `growth` each time, up to `longest` seconds.
    """

    shortest: float
    longest: float
    growth: float
    wait: float = 0.0
    next_look: float = 0.0

    @classmethod
    def of_watcher(cls, polite: float) -> Pace:
        return cls(polite, max(polite, min(SLOWEST_SECONDS, 10 * polite)), 1.5)

    @classmethod
    def of_waiting(cls, polite: float) -> Pace:
        """The pace while somebody waits for the next change: they hear of it sooner, at the cost of
        more looks at first.
        """
        return cls(polite / 10, 2 * polite, 1.2)

    def looked(self, changed: bool) -> None:
        self.wait = (
            self.shortest
            if changed or not self.wait
            else min(self.wait * self.growth, self.longest)
        )
        self.next_look = time.monotonic() + self.wait

    def is_due(self) -> bool:
        return time.monotonic() >= self.next_look
