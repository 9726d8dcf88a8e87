"""Steps: what a schedule wants next, one job at a time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class New:
    """Try another configuration. With `parent` its values are those of that trial, perturbed, and
    it goes on from that trial's checkpoint; `replaces` is the trial whose place it takes.
    """

    rung: int = 0
    epochs: int | None = None
    bracket: int = 0
    parent: int | None = None
    replaces: int | None = None


@dataclass(frozen=True)
class Promote:
    """Train a trial further, to a higher rung."""

    trial: int
    rung: int
    epochs: int


class Pause(Enum):
    """No job now."""

    WAIT = "wait"  # what runs decides what comes next
    DONE = "done"  # nothing will come, however what runs ends


Step = New | Promote | Pause
