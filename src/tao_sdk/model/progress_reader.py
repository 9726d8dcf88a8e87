"""ProgressReader: makes Progress from the bytes of TAO's status.json or of any log.

Not here: how those bytes are fetched and what follows from an epoch (engine/progress.py), how a
line is read (model/progress_lines.py).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import isfinite
from typing import Any, TypeVar

from tao_sdk.model.line_shape import Sighting
from tao_sdk.model.metric_names import smaller_is_better, telling_order
from tao_sdk.model.pace import LivePace
from tao_sdk.model.progress import Best, EpochMetrics, Progress, better_value
from tao_sdk.model.progress_lines import LineReader, start_that_counts

NOTHING: Mapping[str, float] = {}
Report = TypeVar("Report")
# epochs in the curve; beyond it neighbours are merged, so that it still spans the whole run
HISTORY = 512
LINE_LIMIT = 64 * 1024  # bytes of one line; the rest of a longer one is dropped
METRICS = 64  # names in one epoch; a status.json can hold one for each of a thousand classes
NAMES = 1024  # names in all epochs


class ProgressReader:
    """Makes Progress from one stream of bytes, in chunks cut anywhere, with flat memory. One reader
    per stream.

    `start` is the progress of an earlier reader of the same stream, `unfinished` the `unfinished`
    of that reader (the line whose end it had not seen, after the lines that decide its meaning),
    and `is_running` its `is_running`.

    A stream that names steps and no epochs is read as one that counts steps. Within the reader,
    `position` is the epoch, or the step plus one, so that 0 is before the first.
    """

    def __init__(
        self, start: Progress | None = None, unfinished: bytes = b"", is_running: bool = False
    ) -> None:
        start = start or Progress()
        self._progress = replace(start, as_of=None)  # as last reported
        self._counts_steps = start.step is not None
        counted = _by_position(start)
        self._position = counted.epoch
        self._epochs = start.epochs
        self._steps = start.steps
        self._metrics = start.metrics  # the last value of each
        self._not_finite = start.not_finite
        self._first_not_finite = counted.first_not_finite
        self._eta_seconds = start.eta_seconds
        self._from_zero = start.counts_from_zero
        self._to_total = start.counts_to_total
        self._history = _History(counted.history)
        self._bests = _Bests(counted)
        # the metrics of the newest epoch
        self._own_metrics: Mapping[str, float] = self._history.reopen_entry(counted.epoch)
        self._is_running = is_running
        self._tells_steps = False  # an epoch was named again, with another value of a metric
        self._reader = LineReader()
        context, _, line = unfinished.rpartition(b"\n")
        for earlier in context.split(b"\n"):
            self._reader.read(earlier)
        self._lines = _Lines(line)
        self._pace = LivePace(start.eta_seconds)

    @property
    def progress(self) -> Progress:
        return self._progress

    @property
    def is_running(self) -> bool:
        """True if the log names an epoch before it has ended: the newest one goes on."""
        return self._is_running

    @property
    def unfinished(self) -> bytes:
        """The bytes that the next reader of the stream needs beside the progress. They end with the
        start of the line whose end has not come yet. Before it may be the header of a table whose
        rows may follow, or the place of a traceback's frame.
        """
        return b"\n".join([*self._reader.context, start_that_counts(self._lines.unfinished)])

    def feed(self, data: bytes, at: float | None = None) -> list[Progress]:
        """Read `data` and return one Progress for every epoch that it names, in order, each as it
        was when the next epoch began.

        Empty if there is nothing new. Only the last one has the whole history, the others have the
        entry of their epoch. With `at` (seconds, any steady clock) the time left is estimated if
        the job does not report it.
        """
        finished = self._feed_lines(data, self._progress_now)
        if not self._renew_progress():
            return finished
        self._eta_seconds = self._pace.estimate_left(
            self._position, self._positions_to_run(), self._eta_seconds, at
        )
        self._progress = replace(self._progress, eta_seconds=self._eta_seconds)
        return [*finished, self._progress]

    def feed_epochs(self, data: bytes) -> list[EpochMetrics]:
        """Like `feed`, but return only each epoch's number and the last value of every metric: that
        takes half the time.
        """
        finished = self._feed_lines(data, self._metrics_now)
        if self._renew_progress():
            return [*finished, self._metrics_now()]
        return finished

    def end(self) -> list[Progress]:
        """Read the last line, although nothing ended it."""
        return self.feed(b"\n")

    def _feed_lines(self, data: bytes, report: Callable[[], Report]) -> list[Report]:
        """Return the result of `report` at the end of each epoch that ends in `data`."""
        reports: list[Report] = []
        before = report()
        read, take = self._reader.read, self._take_sighting
        for line in self._lines.split_lines(data, self._reader.may_say_something):
            sighting = read(line, self._position > 0)
            if sighting is None:
                continue
            finished = take(sighting, report)
            if finished is not None and (reports or finished != before):
                reports.append(finished)
        return reports

    def _renew_progress(self) -> bool:
        """Update the progress. True if it has changed."""
        history = self._history.entries_with(self._position, self._own_metrics)
        now = self._progress_now(history)
        changed = now != self._progress
        self._progress = now
        return changed

    def _progress_now(self, history: Sequence[EpochMetrics] | None = None) -> Progress:
        """The progress with this history; without one, with only the newest epoch's entry."""
        own = self._own_metrics
        if history is None:
            newest = EpochMetrics(self._position, own)
            history = (newest,) if own else self._history.latest_entry()
        counted = Progress(
            self._position,
            self._epochs,
            self._metrics,
            self._bests.best_epoch(self._position, own),
            self._eta_seconds,
            tuple(history),
            self._not_finite,
            self._from_zero,
            first_not_finite=self._first_not_finite,
            counts_to_total=self._to_total,
        )
        if self._counts_steps:
            return _by_step(counted, self._steps)
        return counted

    def _metrics_now(self) -> EpochMetrics:
        return EpochMetrics(0 if self._counts_steps else self._position, self._metrics)

    def _positions_to_run(self) -> int | None:
        """The number of epochs or steps that have not ended; None if the total is not known."""
        if self._counts_steps:
            return self._steps and max(self._steps - self._position + 1, 0)
        return self._epochs and max(self._epochs - self._position + self._is_running, 0)

    def _take_sighting(self, sighting: Sighting, report: Callable[[], Report]) -> Report | None:
        """Add what one line says. If it ends an epoch, return that epoch's `report`, else None."""
        if sighting.epoch is None:
            self._take_other(sighting)
            return None
        if self._counts_steps:
            self._forget_steps()
        finished = None
        from_zero = (self._from_zero or sighting.counts_from_zero) and not sighting.is_fraction
        epoch = self._position_of(sighting, from_zero)
        if epoch > self._position:
            finished = report()
            self._begin_position(epoch)
            self._is_running = self._tells_steps or sighting.is_running
        elif epoch == self._position and self._own_metrics.keys() & sighting.metrics.keys():
            self._is_running = self._tells_steps = True
        self._from_zero = from_zero
        self._note_totals(sighting)
        if sighting.eta_seconds is not None:
            self._eta_seconds = sighting.eta_seconds
        if sighting.metrics:
            self._take_metrics(epoch, sighting.metrics)
        return finished

    def _take_other(self, sighting: Sighting) -> None:
        """Add a line that names no epoch."""
        if sighting.step is not None and (self._counts_steps or not self._position):
            self._take_step(sighting.step, sighting.steps)
        self._note_totals(sighting)
        counts_epochs = self._position > 0 and not self._counts_steps
        if sighting.eta_seconds is not None and not counts_epochs:  # else it is an epoch's
            self._eta_seconds = sighting.eta_seconds
        if sighting.metrics:
            self._take_metrics(self._position, sighting.metrics)

    def _take_step(self, step: int, steps: int | None) -> None:
        """Go to this step. A step smaller than the newest one restarts the count, as in a further
        epoch that has no name.
        """
        self._counts_steps = True
        self._steps = steps or self._steps
        position = step + 1
        if position < self._position:
            self._forget_history()
        if position > self._position:
            self._begin_position(position)

    def _forget_steps(self) -> None:
        """Stop counting steps, because the log names an epoch."""
        self._forget_history()
        self._counts_steps, self._steps = False, None
        self._first_not_finite = dict.fromkeys(self._not_finite, 1)

    def _forget_history(self) -> None:
        self._position, self._own_metrics = 0, NOTHING
        self._history, self._bests = _History(()), _Bests(Progress())

    def _position_of(self, seen: Sighting, from_zero: bool) -> int:
        """The epoch that a line names, counted from 1. If it is larger than the total, the current
        epoch.
        """
        epochs = seen.epochs or self._told_total()
        if seen.epoch is None or (epochs and seen.epoch > epochs):
            return self._position
        if from_zero:
            return seen.epoch + 1
        return seen.epoch

    def _told_total(self) -> int | None:
        """The number of epochs, by the job's own count."""
        if self._epochs is None or not self._to_total:
            return self._epochs
        return self._epochs - 1

    def _note_totals(self, sighting: Sighting) -> None:
        """Note the number of epochs. It is one more than the job says if the job counts from 0 and
        reaches that number.
        """
        told = sighting.epochs or self._told_total()
        if told is None:
            return
        if self._from_zero and sighting.epoch == told:
            self._to_total = True
        self._epochs = told + 1 if self._to_total else told

    def _begin_position(self, position: int) -> None:
        if self._own_metrics:
            self._history.append_entry(self._position, self._own_metrics)
            self._bests.note_epoch(self._position, self._own_metrics)
            self._own_metrics = NOTHING
        self._position = position

    def _take_metrics(self, position: int, metrics: Mapping[str, float]) -> None:
        finite = metrics
        if not isfinite(sum(metrics.values())):  # all at once: in most lines all are finite
            finite = {name: value for name, value in metrics.items() if isfinite(value)}
        if position < self._position:
            self._take_late(position, finite)
            return
        if self._not_finite or len(finite) < len(metrics):
            self._take_not_finite(position, metrics, finite)
        self._metrics = _join_metrics(self._metrics, finite)
        if position:
            self._own_metrics = _join_metrics(self._own_metrics, finite)

    def _take_not_finite(
        self, position: int, metrics: Mapping[str, float], finite: Mapping[str, float]
    ) -> None:
        """Note the metrics that are NaN or infinite now, and drop their last values."""
        broken = dict.fromkeys(name for name in (*self._not_finite, *metrics) if name not in finite)
        self._not_finite = tuple(broken)[:METRICS]
        first = dict(self._first_not_finite)
        for name in self._not_finite:
            first.setdefault(name, max(position, 1))
        self._first_not_finite = dict(islice(first.items(), METRICS))
        self._metrics = {name: value for name, value in self._metrics.items() if name not in broken}

    def _take_late(self, position: int, metrics: Mapping[str, float]) -> None:
        """Add metrics of an epoch that is over."""
        if not position or not metrics:
            return
        if self._history.is_after_all(position):
            self._history.append_entry(position, metrics)
            self._bests.note_epoch(position, metrics)
        elif (entry := self._history.take_late(position, metrics)) is not None:
            self._bests.correct_epoch(entry, metrics, self._history.entries)


def _by_position(progress: Progress) -> Progress:
    """Return a progress that counts steps with positions in place of epochs. Any other as it is."""
    if progress.step is None:
        return progress
    best = progress.best
    return replace(
        progress,
        epoch=progress.step + 1,
        history=tuple(
            EpochMetrics((entry.step or 0) + 1, entry.metrics) for entry in progress.history
        ),
        best=best and Best((best.step or 0) + 1, best.metric, best.value),
        first_not_finite={name: step + 1 for name, step in progress.first_not_finite.items()},
    )


def _by_step(counted: Progress, steps: int | None) -> Progress:
    """Undo `_by_position`: put the steps back."""
    best = counted.best
    return replace(
        counted,
        epoch=0,
        step=counted.epoch - 1,
        steps=steps,
        history=tuple(EpochMetrics(0, entry.metrics, entry.epoch - 1) for entry in counted.history),
        best=best and Best(0, best.metric, best.value, best.epoch - 1),
        first_not_finite={name: at - 1 for name, at in counted.first_not_finite.items()},
    )


class _History:
    """The metrics of each epoch that is over, oldest first. Beyond HISTORY entries, neighbours are
    merged.
    """

    def __init__(self, entries: Iterable[EpochMetrics]) -> None:
        self.entries = list(entries)

    def reopen_entry(self, epoch: int) -> Mapping[str, float]:
        """Take out the entry of `epoch`, which is not over, and return its metrics until now."""
        if self.entries and self.entries[-1].epoch == epoch:
            return self.entries.pop().metrics
        return {}

    def latest_entry(self) -> tuple[EpochMetrics, ...]:
        """The last entry, or nothing."""
        return tuple(self.entries[-1:])

    def entries_with(self, epoch: int, metrics: Mapping[str, float]) -> tuple[EpochMetrics, ...]:
        """All entries, and one for the newest epoch."""
        if not metrics:
            return tuple(self.entries)
        copy = _History(self.entries)
        copy.append_entry(epoch, metrics)
        return tuple(copy.entries)

    def append_entry(self, epoch: int, metrics: Mapping[str, float]) -> None:
        entries = self.entries
        if self._is_crowded():
            entries[-1] = EpochMetrics(epoch, _join_metrics(entries[-1].metrics, metrics))
            return
        entries.append(EpochMetrics(epoch, metrics))
        if len(entries) > HISTORY:
            self.entries = _merge_neighbours(entries)

    def is_after_all(self, epoch: int) -> bool:
        return not self.entries or epoch > self.entries[-1].epoch

    def take_late(self, epoch: int, metrics: Mapping[str, float]) -> EpochMetrics | None:
        """Add metrics to the entry of `epoch`, and return the entry as it was before. None if there
        is no entry: then nothing is added.
        """
        at = bisect_left(self.entries, epoch, key=lambda entry: entry.epoch)
        entry = self.entries[at]
        if entry.epoch != epoch:
            return None
        self.entries[at] = EpochMetrics(epoch, _join_metrics(entry.metrics, metrics))
        return entry

    def _is_crowded(self) -> bool:
        """True if entries were merged, and the last two are nearer to one another than the first
        two.
        """
        entries = self.entries
        if len(entries) < HISTORY // 2:
            return False
        return entries[-1].epoch - entries[-2].epoch < entries[1].epoch - entries[0].epoch


class _Bests:
    """The best epoch of each metric, among the epochs that are over: until then an epoch's values
    may change.
    """

    def __init__(self, start: Progress) -> None:
        self._bests: dict[str, Best] = {}
        self._often: set[str] = set()  # metrics of more than one epoch
        self._epochs = 0  # the number of epochs noted
        self._metric = ""  # selects the best epoch
        self._chosen_from: tuple[Any, ...] = ()
        for entry in start.history:
            if entry.epoch < start.epoch:
                self.note_epoch(entry.epoch, entry.metrics)
        if start.best and start.best.epoch < start.epoch:
            self._improve_best(start.best)

    def note_epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Add the metrics of an epoch that comes after all that were noted before."""
        self._epochs += 1
        for name, value in metrics.items():
            best = self._bests.get(name)
            if best is None:
                self._improve_best(Best(epoch, name, value))
                continue
            if name not in self._often:
                self._often.add(name)
            if value != best.value and (value < best.value) == smaller_is_better(name):
                self._bests[name] = Best(epoch, name, value)

    def correct_epoch(
        self, before: EpochMetrics, metrics: Mapping[str, float], entries: Sequence[EpochMetrics]
    ) -> None:
        """Add late metrics of an epoch that was noted with the values `before`, which no longer
        count.
        """
        for name, value in metrics.items():
            best = self._bests.get(name)
            if best is not None and best.epoch == before.epoch and best.value != value:
                del self._bests[name]
                for entry in entries:
                    if name in entry.metrics:
                        self._improve_best(Best(entry.epoch, name, entry.metrics[name]))
            elif best is not None and name not in before.metrics:
                self._often.add(name)
            self._improve_best(Best(before.epoch, name, value))

    def best_epoch(self, epoch: int, metrics: Mapping[str, float]) -> Best | None:
        """The best epoch by the most telling metric, including the newest epoch's metrics
        until now.
        """
        if not metrics and not self._bests:
            return None
        chosen_from = (len(self._bests), len(self._often), min(self._epochs, 2), *metrics)
        if chosen_from != self._chosen_from:
            self._metric, self._chosen_from = self._most_telling(metrics), chosen_from
        best = self._bests.get(self._metric)
        if self._metric not in metrics:
            return best
        newest = Best(epoch, self._metric, metrics[self._metric])
        if best is None:
            return newest
        return better_value(best, newest)

    def _most_telling(self, newest: Mapping[str, float]) -> str:
        """The most telling metric. If there are several epochs, a metric of a single epoch tells
        less than one of several.
        """
        several = self._epochs + bool(newest) > 1

        def order(name: str) -> tuple[Any, ...]:
            is_often = name in self._often or (name in newest and name in self._bests)
            return (several and not is_often, telling_order(name))

        return min({*self._bests, *newest}, key=order)

    def _improve_best(self, value: Best) -> None:
        best = self._bests.get(value.metric)
        if best is not None:
            self._bests[value.metric] = better_value(best, value)
        elif len(self._bests) < NAMES:
            self._bests[value.metric] = value


class _Lines:
    """Cuts a stream into lines at line feeds, carriage returns and backspaces. Keeps at most the
    start of each.
    """

    def __init__(self, unfinished: bytes = b"") -> None:
        self.unfinished = unfinished[:LINE_LIMIT]

    def split_lines(
        self, data: bytes, may_say_something: Callable[[bytes], bool]
    ) -> Iterator[bytes]:
        """Yield the lines that have ended. Those that begin in `data` are left out if none of them
        says anything.
        """
        first, end, others = data.replace(b"\r", b"\n").replace(b"\b", b"\n").partition(b"\n")
        head = self.unfinished + first[: LINE_LIMIT - len(self.unfinished)]
        if not end:
            self.unfinished = head
            return
        inner, _, last = others.rpartition(b"\n")
        self.unfinished = last[:LINE_LIMIT]
        yield head
        if not may_say_something(inner):  # asked after the head, which may begin a table
            return
        lines = inner.split(b"\n")
        if len(max(lines, key=len)) > LINE_LIMIT:
            lines = [line[:LINE_LIMIT] for line in lines]
        yield from lines


def _join_metrics(old: Mapping[str, float], new: Mapping[str, float]) -> Mapping[str, float]:
    """Replace old values by new ones, and add further metrics until there are METRICS."""
    joined = {**old, **new} if old else new
    if len(joined) <= METRICS:
        return joined
    return dict(islice(joined.items(), METRICS))


def _merge_neighbours(history: Sequence[EpochMetrics]) -> list[EpochMetrics]:
    """Keep the first entry, then merge every two neighbours."""
    pairs = zip(history[1::2], history[2::2], strict=False)
    odd_one = history[-1:] if len(history) % 2 == 0 else ()
    return [
        history[0],
        *(EpochMetrics(new.epoch, _join_metrics(old.metrics, new.metrics)) for old, new in pairs),
        *odd_one,
    ]
