"""Pace: the time of an epoch, and from it the time left, if the job does not report it itself.

Uncertainty makes the time left longer, never shorter: an epoch is not measured if nobody saw it
begin, and an epoch whose line may have come at its start is still to be run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

OVERDUE_EPOCHS = 2  # the next epoch is overdue after the time of so many
LEAST_OVERDUE_SECONDS = 10.0  # a program may print several short epochs at once
LEAST_SECONDS = 1.0  # epochs that come within so short a time may have been printed together
MOST_POINTS = 64  # at most; beyond it, every second one is dropped


class Point(NamedTuple):
    epoch: int
    at: float


class LivePace:
    """The time of an epoch, from the times at which epochs were seen. While the log is caught up
    with, nothing is learned: nobody knows when its epochs came.
    """

    def __init__(self, estimated: float | None) -> None:
        self._points: list[Point] = []  # about LEAST_SECONDS apart, or further
        self._group_began = 0.0  # when the first epoch of the last point was seen
        self._missed_epoch = 0  # nobody saw when it and those before it came
        self._told = estimated

    def estimate_left(
        self,
        epoch: int,
        to_run: int | None,
        told: float | None,
        at: float | None,
    ) -> float | None:
        """Return the seconds left: `told` if the job reports them, else an estimate from the epochs
        seen so far. None if too little was seen.

        `to_run` is the number of epochs that have not ended, `epoch` the newest that was named.
        `at` is None while the log is caught up with.
        """
        if at is None:
            self._missed_epoch = epoch
            return told
        if epoch > self._missed_epoch:
            self._add_point(Point(epoch, at))
        seconds = self._epoch_seconds()
        if seconds is None or to_run is None or told != self._told:
            return told
        self._told = left_at(seconds, to_run, at - self._points[-1].at)
        return self._told

    def _add_point(self, point: Point) -> None:
        if not self._points or point.epoch < self._points[-1].epoch:
            self._points = [point]
            self._group_began = point.at
            return
        if point.epoch == self._points[-1].epoch:
            return
        if point.at - self._group_began < LEAST_SECONDS:
            self._points[-1] = point
            return
        if len(self._points) == MOST_POINTS:
            del self._points[1::2]
        self._points.append(point)
        self._group_began = point.at

    def _epoch_seconds(self) -> float | None:
        """The seconds of an epoch: the longer of the average and the later half's average. None if
        too little was seen.
        """
        if not self._points:
            return None
        first, latest = self._points[0], self._points[-1]
        if latest.at - first.at < LEAST_SECONDS:
            return None
        halfway = (first.at + latest.at) / 2
        middle = max(
            (point for point in self._points if point.at <= halfway), key=lambda point: point.at
        )
        return max(_seconds_between(first, latest), _seconds_between(middle, latest))


def _seconds_between(first: Point, latest: Point) -> float:
    """The average seconds of an epoch between two points."""
    return (latest.at - first.at) / (latest.epoch - first.epoch)


def left_at(epoch_seconds: float, to_run: int, since: float) -> float | None:
    """The seconds left, `since` seconds after the newest epoch was named. An epoch that takes
    longer than the others takes nothing from those after it. None if the last one is late.
    """
    if to_run <= 0:
        return 0.0
    left = max(epoch_seconds * to_run - since, epoch_seconds * (to_run - 1))
    if left > 0:
        return round(left, 1)
    return None


@dataclass(frozen=True)
class Pace:
    """The times (unix seconds) at which looks saw epochs. The looks may be far apart. The time left
    follows from the times.
    """

    first: tuple[int, float] | None = None  # an epoch, and when it had not come yet
    latest: tuple[int, float] | None = None  # epoch, when it was seen
    is_running: bool = False  # the epoch is named before it has ended, so the latest goes on

    def add_look(
        self, epoch: int, at: float, look_before: float | None = None, is_running: bool = False
    ) -> Pace:
        """Return the pace with one more look: it saw `epoch` at `at`, and not yet at
        `look_before`.
        """
        pace = replace(self, is_running=is_running)
        if not epoch or (self.latest and epoch <= self.latest[0]):
            return pace
        first = self.first
        if first is None and look_before is not None:
            first = (epoch, look_before)
        return replace(pace, first=first, latest=(epoch, at))

    def seconds_left(self, epochs: int | None, started: float | None, now: float) -> float | None:
        """The seconds from `now` until the last epoch ends, or None if that is not known.

        `started` is when the job began.
        """
        epoch_seconds = self.epoch_seconds(started)
        if not epochs or self.latest is None or epoch_seconds is None:
            return None
        epoch, at = self.latest
        return left_at(epoch_seconds, epochs - epoch + self.is_running, now - at) or None

    def is_overdue(self, started: float | None, now: float) -> bool:
        """True if the next epoch takes so long that the pace says nothing about the time left."""
        epoch_seconds = self.epoch_seconds(started)
        if self.latest is None or epoch_seconds is None:
            return False
        patience = max(OVERDUE_EPOCHS * epoch_seconds, LEAST_OVERDUE_SECONDS)
        return now - self.latest[1] > patience

    def epoch_seconds(self, started: float | None) -> float | None:
        """The most seconds that an epoch took, or None if that is not known.

        From the job's start on, it includes what the job did before its first epoch. From the first
        look on it does not, but an epoch may have come soon after that look. Returns the smaller.
        """
        if self.latest is None:
            return None
        epoch, at = self.latest
        measured: list[float] = []
        ended = epoch - self.is_running
        if started is not None and at > started and ended:
            measured.append((at - started) / ended)
        if self.first and at > self.first[1] and epoch > self.first[0]:
            measured.append((at - self.first[1]) / (epoch - self.first[0]))
        return min(measured, default=None)

    def to_json(self) -> list[Any]:
        return [self.first, self.latest, self.is_running]

    @classmethod
    def from_json(cls, data: Any) -> Pace:
        first, latest, *rest = data or (None, None)
        return cls(_point_from_json(first), _point_from_json(latest), bool(rest and rest[0]))


def _point_from_json(data: Any) -> tuple[int, float] | None:
    if not data:
        return None
    return (int(data[0]), float(data[1]))
