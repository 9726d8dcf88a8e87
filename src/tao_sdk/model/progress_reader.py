"""ProgressReader: makes Progress from the bytes of TAO's status.json or of any log.

Not here: how those bytes are fetched and what follows from an epoch (engine/progress.py), how a
line is understood (model/progress_lines.py).
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
# epochs kept for the curve; beyond it neighbours are merged, so that it still spans the whole run
HISTORY = 512
LINE_LIMIT = 64 * 1024  # bytes of one line that are kept; the rest of a longer one is dropped
METRICS = 64  # names kept of one epoch; a status.json can hold one for each of a thousand classes
NAMES = 1024  # names kept of all epochs


class ProgressReader:
    """Makes Progress out of one stream of bytes, in chunks cut anywhere, with flat memory. One
    reader per stream.

    `start` is what an earlier reader of the same stream came to, and `unfinished` what that reader
    had left: the line that it had not seen the end of, below what decides its meaning. `is_running`
    is what that reader said of the newest epoch.

    A stream that names steps and no epochs is read as one that counts steps. Within the reader,
    `position` is the epoch, or the step and one, so that 0 is before the first.
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
        # what was said of the newest epoch
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
        """True where the log names an epoch before it has ended: the newest one goes on."""
        return self._is_running

    @property
    def unfinished(self) -> bytes:
        """What the next reader of the stream needs beside the progress: the start of the line whose
        end has not come yet, and before it the header of a table whose rows may follow, or the
        place of a traceback's frame.
        """
        return b"\n".join([*self._reader.context, start_that_counts(self._lines.unfinished)])

    def feed(self, data: bytes, at: float | None = None) -> list[Progress]:
        """What `data` adds: one Progress for every epoch it speaks of, in order, each as it was
        when the next began.

        Empty when it says nothing new. The last alone has the whole history, the others the entry
        of their epoch. `at` (seconds, any steady clock) lets the time left be estimated where the
        job does not tell it itself.
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
        """As `feed`, but of each epoch only its number and the last value of every metric: that
        takes half the time.
        """
        finished = self._feed_lines(data, self._metrics_now)
        if self._renew_progress():
            return [*finished, self._metrics_now()]
        return finished

    def end(self) -> list[Progress]:
        """What the last line says although nothing ended it."""
        return self.feed(b"\n")

    def _feed_lines(self, data: bytes, report: Callable[[], Report]) -> list[Report]:
        """What `report` gives at the end of each epoch that ends in `data`."""
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
        """True where the progress is not what it was."""
        history = self._history.entries_with(self._position, self._own_metrics)
        now = self._progress_now(history)
        changed = now != self._progress
        self._progress = now
        return changed

    def _progress_now(self, history: Sequence[EpochMetrics] | None = None) -> Progress:
        """The progress with this history; without one, with the entry of the newest epoch alone."""
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
        """How many epochs or steps have not ended; None where their number is not known."""
        if self._counts_steps:
            return self._steps and max(self._steps - self._position + 1, 0)
        return self._epochs and max(self._epochs - self._position + self._is_running, 0)

    def _take_sighting(self, sighting: Sighting, report: Callable[[], Report]) -> Report | None:
        """Add what one line says. Where an epoch ends by it, the `report` of that, else None."""
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
        """Add what a line says that names no epoch."""
        if sighting.step is not None and (self._counts_steps or not self._position):
            self._take_step(sighting.step, sighting.steps)
        self._note_totals(sighting)
        counts_epochs = self._position > 0 and not self._counts_steps
        if sighting.eta_seconds is not None and not counts_epochs:  # else it is that of an epoch
            self._eta_seconds = sighting.eta_seconds
        if sighting.metrics:
            self._take_metrics(self._position, sighting.metrics)

    def _take_step(self, step: int, steps: int | None) -> None:
        """Go to this step. A smaller one than the newest begins to count anew, as in a further
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
        """The log names an epoch, so that its steps count no more."""
        self._forget_history()
        self._counts_steps, self._steps = False, None
        self._first_not_finite = dict.fromkeys(self._not_finite, 1)

    def _forget_history(self) -> None:
        self._position, self._own_metrics = 0, NOTHING
        self._history, self._bests = _History(()), _Bests(Progress())

    def _position_of(self, seen: Sighting, from_zero: bool) -> int:
        """The epoch a line speaks of, counted from 1. One that cannot be is the current one."""
        epochs = seen.epochs or self._told_total()
        if seen.epoch is None or (epochs and seen.epoch > epochs):
            return self._position
        if from_zero:
            return seen.epoch + 1
        return seen.epoch

    def _told_total(self) -> int | None:
        """The number of epochs in the job's own words."""
        if self._epochs is None or not self._to_total:
            return self._epochs
        return self._epochs - 1

    def _note_totals(self, sighting: Sighting) -> None:
        """Note how many epochs there are: one more than are told where the job counts from 0 and
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
        if not isfinite(sum(metrics.values())):  # of all at once, as most lines have nothing else
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
        """Name the metrics that are NaN or infinite now; their last values count no more."""
        broken = dict.fromkeys(name for name in (*self._not_finite, *metrics) if name not in finite)
        self._not_finite = tuple(broken)[:METRICS]
        first = dict(self._first_not_finite)
        for name in self._not_finite:
            first.setdefault(name, max(position, 1))
        self._first_not_finite = dict(islice(first.items(), METRICS))
        self._metrics = {name: value for name, value in self._metrics.items() if name not in broken}

    def _take_late(self, position: int, metrics: Mapping[str, float]) -> None:
        """Add news of an epoch that is over."""
        if not position or not metrics:
            return
        if self._history.is_after_all(position):
            self._history.append_entry(position, metrics)
            self._bests.note_epoch(position, metrics)
        elif (entry := self._history.take_late(position, metrics)) is not None:
            self._bests.correct_epoch(entry, metrics, self._history.entries)


def _by_position(progress: Progress) -> Progress:
    """A progress that counts steps, with positions for epochs. Any other as it is."""
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
    """What `_by_position` made, with its steps again."""
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
    """What was said of each epoch that is over, oldest first; beyond HISTORY entries, neighbours
    are merged.
    """

    def __init__(self, entries: Iterable[EpochMetrics]) -> None:
        self.entries = list(entries)

    def reopen_entry(self, epoch: int) -> Mapping[str, float]:
        """Take out the entry of `epoch`, which is not over: what was said of it until now."""
        if self.entries and self.entries[-1].epoch == epoch:
            return self.entries.pop().metrics
        return {}

    def latest_entry(self) -> tuple[EpochMetrics, ...]:
        """The last entry, or nothing."""
        return tuple(self.entries[-1:])

    def entries_with(self, epoch: int, metrics: Mapping[str, float]) -> tuple[EpochMetrics, ...]:
        """All entries, and that of the newest epoch."""
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
        """The entry of `epoch` as it was before; None where there is none, and
        nothing to add to.
        """
        at = bisect_left(self.entries, epoch, key=lambda entry: entry.epoch)
        entry = self.entries[at]
        if entry.epoch != epoch:
            return None
        self.entries[at] = EpochMetrics(epoch, _join_metrics(entry.metrics, metrics))
        return entry

    def _is_crowded(self) -> bool:
        """True where entries were thinned, and the last two are nearer to one another than the
        first two.
        """
        entries = self.entries
        if len(entries) < HISTORY // 2:
            return False
        return entries[-1].epoch - entries[-2].epoch < entries[1].epoch - entries[0].epoch


class _Bests:
    """The best epoch of each metric, of the epochs that are over: until then its values may still
    change.
    """

    def __init__(self, start: Progress) -> None:
        self._bests: dict[str, Best] = {}
        self._often: set[str] = set()  # metrics of more than one epoch
        self._epochs = 0  # how many were noted
        self._metric = ""  # by which the best epoch is chosen
        self._chosen_from: tuple[Any, ...] = ()
        for entry in start.history:
            if entry.epoch < start.epoch:
                self.note_epoch(entry.epoch, entry.metrics)
        if start.best and start.best.epoch < start.epoch:
            self._improve_best(start.best)

    def note_epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Take what was said of an epoch that comes after all that were noted before."""
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
        """Take what is said late of an epoch that was noted with other values `before`, which count
        no more.
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
        """The best epoch by the most telling metric, with what is said of the newest until now."""
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
        """Of all metrics; one that was seen in a single epoch of several tells less than one seen
        often.
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
    """Cuts a stream into lines at line feeds, carriage returns and backspaces, and keeps at most
    the start of each.
    """

    def __init__(self, unfinished: bytes = b"") -> None:
        self.unfinished = unfinished[:LINE_LIMIT]

    def split_lines(
        self, data: bytes, may_say_something: Callable[[bytes], bool]
    ) -> Iterator[bytes]:
        """The lines that have ended. Of those that begin in `data`, none where they say nothing."""
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
    """The new values in place of the old; of further metrics the first, until there are METRICS."""
    joined = {**old, **new} if old else new
    if len(joined) <= METRICS:
        return joined
    return dict(islice(joined.items(), METRICS))


def _merge_neighbours(history: Sequence[EpochMetrics]) -> list[EpochMetrics]:
    """The first entry, then every two neighbours as one."""
    pairs = zip(history[1::2], history[2::2], strict=False)
    odd_one = history[-1:] if len(history) % 2 == 0 else ()
    return [
        history[0],
        *(EpochMetrics(new.epoch, _join_metrics(old.metrics, new.metrics)) for old, new in pairs),
        *odd_one,
    ]
