"""Progress: how far a training job is, read from what it writes as it goes.

Here: Progress, and ProgressReader, which makes it from the bytes of TAO's status.json or of any log. Not here: how those
bytes are fetched and what follows from an epoch (engine/progress.py), how a line is understood (model/progress_lines.py).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import Any, NamedTuple

from tao_sdk.model.progress_lines import LineReader, Sighting, may_say_something

HISTORY = 512  # epochs kept for the curve; beyond it neighbours are merged, so that it still spans the whole run
LINE_LIMIT = 64 * 1024  # bytes of one line that are kept; the rest of a longer one is dropped
METRICS = 64  # names kept; a status.json can hold one for each of a thousand classes

_SMALLER_IS_BETTER = frozenset({
    "loss", "nll", "error", "err", "wer", "cer", "perplexity", "ppl", "mae", "mse", "rmse", "fid",
    "time", "latency", "cost", "memory", "distance",
})  # fmt: skip
_TRAINED_ON = frozenset({"train", "training"})
_HELD_OUT = frozenset({"val", "valid", "validation", "test", "eval", "dev"})


@dataclass(frozen=True)
class EpochMetrics:
    """What was said of one epoch."""

    epoch: int
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Best:
    """The epoch in which a metric was best, and what it was."""

    epoch: int
    metric: str
    value: float


@dataclass(frozen=True)
class Progress:
    """How far a job is. Epochs count from 1 as people do, also when the job counts them from 0.

    `metrics` holds the last value seen of each, always finite; one that has become NaN or infinite is in `not_finite`.
    """

    epoch: int = 0  # the newest epoch the job spoke of; 0: none yet
    epochs: int | None = None  # of how many, once the job has said so
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    best: Best | None = None
    eta_seconds: float | None = None
    history: tuple[EpochMetrics, ...] = ()
    not_finite: tuple[str, ...] = ()
    counts_from_zero: bool = False

    @property
    def fraction(self) -> float | None:
        """0.0 to 1.0, or None while the number of epochs is not known."""
        return min(self.epoch / self.epochs, 1.0) if self.epochs else None

    @property
    def best_epoch(self) -> int | None:
        return self.best.epoch if self.best else None

    def to_json(self) -> dict[str, Any]:
        best = self.best
        return {
            "epoch": self.epoch,
            "epochs": self.epochs,
            "metrics": dict(self.metrics),
            "best_epoch": best.epoch if best else None,
            "best_metric": best.metric if best else None,
            "best_value": best.value if best else None,
            "eta_seconds": self.eta_seconds,
            "history": [{"epoch": entry.epoch, "metrics": dict(entry.metrics)} for entry in self.history],
            "not_finite": list(self.not_finite),
            "counts_from_zero": self.counts_from_zero,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Progress:
        """The Progress that `to_json` gave; what is missing has its default, so {} is Progress()."""
        metric = data.get("best_metric")
        return cls(
            epoch=data.get("epoch", 0),
            epochs=data.get("epochs"),
            metrics=dict(data.get("metrics", {})),
            best=Best(data["best_epoch"], metric, data["best_value"]) if metric else None,
            eta_seconds=data.get("eta_seconds"),
            history=tuple(EpochMetrics(entry["epoch"], entry["metrics"]) for entry in data.get("history", ())),
            not_finite=tuple(data.get("not_finite", ())),
            counts_from_zero=data.get("counts_from_zero", False),
        )


def milestones(before: int, after: int, interval: int) -> range:
    """The multiples of `interval` that were crossed on the way from epoch `before` to epoch `after`."""
    return range((before // interval + 1) * interval, after + 1, interval)


def richer(first: Progress, second: Progress) -> Progress:
    """Of what two streams of one job say, the one that is further, then the one that says more, then the first."""
    return max((first, second), key=lambda progress: (progress.epoch, len(progress.metrics)))


@lru_cache(maxsize=1024)
def words_of(metric: str) -> frozenset[str]:
    return frozenset(re.split(r"[^a-z]+", metric.lower()))


@lru_cache(maxsize=1024)
def smaller_is_better(metric: str) -> bool:
    """`val_loss`, `wer`, `box_error` ...: True. `accuracy`, `mAP` ...: False."""
    words = words_of(metric)
    return bool(words & _SMALLER_IS_BETTER) or any(word.endswith(("loss", "error")) for word in words)


def is_loss(metric: str) -> bool:
    return any(word.endswith("loss") for word in words_of(metric))


@lru_cache(maxsize=1024)
def telling_order(metric: str) -> tuple[bool, bool, bool, bool, str]:
    """A sort key, the most telling metric first: val_accuracy, accuracy, val_loss, loss, box_loss, train_loss."""
    words = words_of(metric)
    part = is_loss(metric) and not is_total_loss(metric)
    return (bool(words & _TRAINED_ON), is_loss(metric), not words & _HELD_OUT, part, metric)


def is_total_loss(metric: str) -> bool:
    """`loss`, `total_loss`, `val_loss`: True. `box_loss`, one part of several: False."""
    return is_loss(metric) and not words_of(metric) - _HELD_OUT - _TRAINED_ON - {"loss", "total", ""}


def telling_metrics(progress: Progress) -> list[str]:
    """The loss, then what tells more than a loss, of the metrics that the job has now: what a line has room for.

    The second is the one by which the best epoch is chosen, where that is no loss.
    """
    names = sorted(progress.metrics, key=telling_order)
    losses, others = [name for name in names if is_loss(name)], [name for name in names if not is_loss(name)]
    if progress.best and progress.best.metric in others:
        others = [progress.best.metric]
    return [*losses[:1], *others[:1]]


def not_finite_since(progress: Progress) -> dict[str, int]:
    """Metrics that are NaN or infinite now, with the epoch in which they became so."""
    since: dict[str, int] = {}
    for name in progress.not_finite:
        finite = [entry.epoch for entry in progress.history if name in entry.metrics]
        since[name] = min(finite[-1] + 1 if finite else 1, max(progress.epoch, 1))
    return since


def better(first: Best, second: Best) -> Best:
    """The better of two values of one metric; of equals the earlier epoch."""
    if first.value == second.value:
        return first if first.epoch <= second.epoch else second
    return first if (first.value < second.value) == smaller_is_better(first.metric) else second


class ProgressReader:
    """Makes Progress out of one stream of bytes, in chunks cut anywhere, with flat memory. One reader per stream.

    `start` is what an earlier reader of the same stream came to.
    """

    def __init__(self, start: Progress | None = None) -> None:
        self._whole = start or Progress()
        self._now = self._whole  # the same, with its last entry alone as history
        self._history = _History(self._whole.history)
        self._lines = _Lines()
        self._reader = LineReader()
        self._closed = _bests(self._whole)
        self._pace = _Pace(self._whole.eta_seconds)

    @property
    def progress(self) -> Progress:
        return self._whole

    def feed(self, data: bytes, at: float | None = None) -> list[Progress]:
        """What `data` adds: one Progress for every epoch it speaks of, in order, each as it was when the next began.

        Empty when it says nothing new. The last alone has the whole history, the others the entry of their epoch. `at`
        (seconds, any steady clock) lets the time left be estimated where the job does not tell it itself.
        """
        updates: list[Progress] = []
        reported = self._now
        for sighting in self._sightings(data):
            before, self._now = self._now, self._after(sighting)
            if self._now.epoch > before.epoch and before != reported:
                updates.append(before)
                reported = before
        self._now = self._pace.estimate(self._now, at)
        whole = replace(self._now, history=self._history.entries())
        if whole == self._whole:
            return updates
        self._whole = whole
        return [*updates, whole]

    def end(self) -> list[Progress]:
        """What the last line says although nothing ended it."""
        return self.feed(b"\n")

    def _sightings(self, data: bytes) -> Iterator[Sighting]:
        """What the lines say, those of one epoch taken together: a bar that is redrawn a thousand times is one."""
        held: Sighting | None = None
        for line in self._lines.split(data):
            seen = self._reader.read(line, bool(self._now.epoch or (held and held.epoch)))
            if seen is None:
                continue
            if held is None:
                held = seen
            elif seen.names_epoch_of(held) or (seen.epoch is None and not self._is_late(held)):
                held.take(seen)
            else:
                yield held
                held = seen
        if held:
            yield held

    def _is_late(self, seen: Sighting) -> bool:
        known = self._now
        return _as_people_count(seen, known.counts_from_zero, known.epochs, known.epoch) < known.epoch

    def _after(self, seen: Sighting) -> Progress:
        known = self._now
        from_zero = known.counts_from_zero or seen.counts_from_zero
        epochs = seen.epochs or known.epochs
        epoch = _as_people_count(seen, from_zero, epochs, known.epoch)
        if epoch > known.epoch:
            self._close(known)
        now = Progress(
            epoch=max(epoch, known.epoch),
            epochs=epochs,
            metrics=known.metrics,
            best=known.best,
            eta_seconds=known.eta_seconds if seen.eta_seconds is None else seen.eta_seconds,
            history=known.history[-1:],
            not_finite=known.not_finite,
            counts_from_zero=from_zero,
        )
        return self._with_metrics(now, epoch, seen.metrics) if seen.metrics else now

    def _close(self, known: Progress) -> None:
        """Remember the bests of the epoch that has just ended: until then its values may still change."""
        if known.history and known.history[-1].epoch == known.epoch:
            _note(self._closed, known.history[-1])

    def _with_metrics(self, known: Progress, epoch: int, seen: Mapping[str, float]) -> Progress:
        finite = {name: value for name, value in seen.items() if isfinite(value)}
        if epoch and finite:
            self._history.take(EpochMetrics(epoch, finite))
        if epoch < known.epoch:  # late news of an epoch that is over
            return known
        lost = tuple(name for name in (*known.not_finite, *seen) if name not in finite)
        metrics = {**known.metrics, **finite}
        if lost or len(metrics) > METRICS:
            kept = (item for item in metrics.items() if item[0] not in lost)
            metrics = dict(islice(kept, METRICS))
        return Progress(
            known.epoch,
            known.epochs,
            metrics,
            self._best(),
            known.eta_seconds,
            self._history.latest(),
            tuple(dict.fromkeys(lost))[:METRICS],
            known.counts_from_zero,
        )

    def _best(self) -> Best | None:
        """The best epoch by the most telling metric; one that was seen a single time tells less than one seen often."""
        if not self._history.latest():
            return None
        latest = self._history.latest()[0]
        names = {**self._closed, **latest.metrics}
        metric = min(names, key=lambda name: (self._history.has_once(name), telling_order(name)))
        if metric not in latest.metrics:
            return self._closed[metric]
        now = Best(latest.epoch, metric, latest.metrics[metric])
        return better(self._closed.get(metric, now), now)


class _History:
    """What was said of each epoch, oldest first; beyond HISTORY entries, neighbours are merged."""

    def __init__(self, entries: Iterable[EpochMetrics]) -> None:
        self._entries = list(entries)
        self._often: set[str] = set()  # metrics of more than one epoch

    def entries(self) -> tuple[EpochMetrics, ...]:
        return tuple(self._entries)

    def latest(self) -> tuple[EpochMetrics, ...]:
        """The last entry, or nothing."""
        return tuple(self._entries[-1:])

    def take(self, new: EpochMetrics) -> None:
        entries = self._entries
        if entries and new.epoch <= entries[-1].epoch:
            self._merge(new)
        elif len(entries) > 2 and self._gap(-1) < self._gap(1):  # thinned before: keep the distance
            entries[-1] = EpochMetrics(new.epoch, {**entries[-1].metrics, **new.metrics})
        else:
            entries.append(new)
            if len(entries) > HISTORY:
                self._entries = _thinned(entries)

    def has_once(self, metric: str) -> bool:
        """True for a metric of one epoch among several; one that is no longer, never is again."""
        if metric in self._often or len(self._entries) < 2:
            return False
        once = sum(metric in entry.metrics for entry in self._entries) < 2
        if not once:
            self._often.add(metric)
        return once

    def _merge(self, new: EpochMetrics) -> None:
        at = bisect_left(self._entries, new.epoch, key=lambda entry: entry.epoch)
        if self._entries[at].epoch == new.epoch:
            self._entries[at] = _merged(self._entries[at], new)

    def _gap(self, index: int) -> int:
        return self._entries[index].epoch - self._entries[index - 1].epoch


class _Lines:
    """Cuts a stream into lines at line feeds, carriage returns and backspaces, and keeps at most the start of each."""

    def __init__(self) -> None:
        self._rest = b""

    def split(self, data: bytes) -> Iterable[bytes]:
        first, end, others = data.replace(b"\r", b"\n").replace(b"\b", b"\n").partition(b"\n")
        head = self._rest + first[: LINE_LIMIT - len(self._rest)]
        if not end:
            self._rest = head
            return ()
        inner, _, last = others.rpartition(b"\n")
        self._rest = last[:LINE_LIMIT]
        whole = inner.split(b"\n") if may_say_something(inner) else ()
        return (line[:LINE_LIMIT] if len(line) > LINE_LIMIT else line for line in (head, *whole))


class _Point(NamedTuple):
    epoch: int
    at: float


class _Pace:
    """How long an epoch takes, from when epochs were seen. A log that is caught up with in one piece tells nothing."""

    def __init__(self, estimated: float | None) -> None:
        self._first: _Point | None = None
        self._told = estimated

    def estimate(self, progress: Progress, at: float | None) -> Progress:
        if at is None or not progress.epoch or not progress.epochs:
            return progress
        if progress.eta_seconds != self._told:
            return progress  # the job itself says how long it still takes
        if self._first is None:
            self._first = _Point(progress.epoch, at)
        if progress.epoch == self._first.epoch or at <= self._first.at:
            return progress
        seconds = (at - self._first.at) / (progress.epoch - self._first.epoch)
        self._told = round(seconds * max(progress.epochs - progress.epoch, 0), 1)
        return replace(progress, eta_seconds=self._told)


@dataclass(frozen=True)
class Pace:
    """When epochs were seen, by looks that may be far apart (unix seconds): from it follows how long the rest takes."""

    first: tuple[int, float] | None = None  # epoch, when
    latest: tuple[int, float] | None = None

    def seen(self, epoch: int, at: float) -> Pace:
        """With a look at `at` that saw `epoch`."""
        if not epoch or (self.latest and epoch <= self.latest[0]):
            return self
        return Pace(self.first or (epoch, at), (epoch, at))

    def seconds_left(self, epochs: int | None, started: float | None, now: float) -> float | None:
        """Seconds from `now` on, None where nothing tells. `started`: when the job began, for who looks a first time."""
        since = self.first if self.first != self.latest else (0, started) if started is not None else None
        if not epochs or self.latest is None or since is None:
            return None
        epoch, at = self.latest
        if at <= since[1]:  # the clock was set back
            return None
        each = (at - since[1]) / (epoch - since[0])
        return round(max(at + each * (epochs - epoch) - now, 0.0), 1)

    def to_json(self) -> list[tuple[int, float] | None]:
        return [self.first, self.latest]

    @classmethod
    def from_json(cls, data: Any) -> Pace:
        first, latest = ((int(each[0]), float(each[1])) if each else None for each in data or (None, None))
        return cls(first, latest)


def _as_people_count(seen: Sighting, from_zero: bool, epochs: int | None, current: int) -> int:
    """The epoch a line speaks of; a line that names none, or one that cannot be, speaks of the current one."""
    if seen.epoch is None or (epochs and seen.epoch > epochs):
        return current
    counted = seen.epoch + (1 if from_zero and not seen.completed else 0)
    return min(counted, epochs) if epochs else counted


def _merged(old: EpochMetrics, new: EpochMetrics) -> EpochMetrics:
    return EpochMetrics(new.epoch, {**old.metrics, **new.metrics})


def _thinned(history: Sequence[EpochMetrics]) -> list[EpochMetrics]:
    """The first entry, then every two neighbours as one."""
    pairs = zip(history[1::2], history[2::2], strict=False)
    odd_one = history[-1:] if len(history) % 2 == 0 else ()
    return [history[0], *(_merged(old, new) for old, new in pairs), *odd_one]


def _bests(progress: Progress) -> dict[str, Best]:
    """The bests of the epochs before the current one, as far as they are still known."""
    bests: dict[str, Best] = {}
    if progress.best and progress.best.epoch < progress.epoch:
        bests[progress.best.metric] = progress.best
    for entry in progress.history:
        if entry.epoch < progress.epoch:
            _note(bests, entry)
    return bests


def _note(bests: dict[str, Best], entry: EpochMetrics) -> None:
    for name, value in entry.metrics.items():
        seen = Best(entry.epoch, name, value)
        bests[name] = better(bests.get(name, seen), seen)
