"""Pace: how long an epoch takes, and so the time left, where the job does not tell it itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

OVERDUE_EPOCHS = 2  # the next epoch is overdue once so many would have fitted
LEAST_OVERDUE_SECONDS = 10.0  # of short epochs a program may print several at once


class Point(NamedTuple):
    epoch: int
    at: float


class LivePace:
    """How long an epoch takes, from when epochs were seen. A log that is caught up with in one
    piece tells nothing.
    """

    def __init__(self, estimated: float | None) -> None:
        self._first: Point | None = None
        self._told = estimated

    def estimate_left(
        self, epoch: int, epochs: int | None, told: float | None, at: float | None
    ) -> float | None:
        """Seconds left: as the job has `told` them, else as the epochs seen so far suggest."""
        if at is None or not epoch or not epochs or told != self._told:
            return told
        if self._first is None:
            self._first = Point(epoch, at)
        if epoch == self._first.epoch or at <= self._first.at:
            return told
        seconds = (at - self._first.at) / (epoch - self._first.epoch)
        self._told = round(seconds * max(epochs - epoch, 0), 1)
        return self._told


@dataclass(frozen=True)
class Pace:
    """When epochs were seen, by looks that may be far apart (unix seconds): from it follows how
    long the rest takes.
    """

    first: tuple[int, float] | None = None  # epoch, when
    latest: tuple[int, float] | None = None

    def add_look(self, epoch: int, at: float) -> Pace:
        """The pace with one more look: `epoch` was seen at `at`."""
        if not epoch or (self.latest and epoch <= self.latest[0]):
            return self
        return Pace(self.first or (epoch, at), (epoch, at))

    def seconds_left(self, epochs: int | None, started: float | None, now: float) -> float | None:
        """Seconds from `now` until the last epoch ends, or None where that is not known.

        `started` is when the job began. It counts where only one epoch has been seen.
        """
        epoch_seconds = self.epoch_seconds(started)
        if not epochs or self.latest is None or epoch_seconds is None:
            return None
        epoch, at = self.latest
        left = at + epoch_seconds * (epochs - epoch) - now
        if left > 0:
            return round(left, 1)
        return None

    def is_overdue(self, started: float | None, now: float) -> bool:
        """Whether the next epoch takes so long that the pace tells nothing of the time left."""
        epoch_seconds = self.epoch_seconds(started)
        if self.latest is None or epoch_seconds is None:
            return False
        patience = max(OVERDUE_EPOCHS * epoch_seconds, LEAST_OVERDUE_SECONDS)
        return now - self.latest[1] > patience

    def epoch_seconds(self, started: float | None) -> float | None:
        """How long an epoch took, or None where that is not known."""
        begin = self._first_point(started)
        if self.latest is None or begin is None:
            return None
        (first_epoch, first_at), (epoch, at) = begin, self.latest
        if at <= first_at:  # the clock was set back
            return None
        return (at - first_at) / (epoch - first_epoch)

    def _first_point(self, started: float | None) -> tuple[int, float] | None:
        """The epoch and the time from which the pace is measured."""
        if self.first != self.latest:
            return self.first
        if started is None:
            return None
        return (0, started)

    def to_json(self) -> list[tuple[int, float] | None]:
        return [self.first, self.latest]

    @classmethod
    def from_json(cls, data: Any) -> Pace:
        first, latest = (
            (int(each[0]), float(each[1])) if each else None for each in data or (None, None)
        )
        return cls(first, latest)
