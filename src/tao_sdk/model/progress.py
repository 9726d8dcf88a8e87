"""Progress: how far a training job is.

Here: Progress and what follows from it. Not here: how it is read from a job's output
(model/progress_reader.py), the times of epochs (model/pace.py), the meaning of a metric's name
(model/metric_names.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from tao_sdk.model.clock import from_iso, to_iso
from tao_sdk.model.metric_names import is_loss, smaller_is_better, telling_order

NAMED_METRICS = 3  # at most, in a sentence


class EpochMetrics(NamedTuple):
    """The metrics of one epoch, or of one step of a job that names no epochs."""

    epoch: int  # 0 where `step` is set
    metrics: Mapping[str, float]
    step: int | None = None


class Best(NamedTuple):
    """The epoch or step in which a metric was best, and its value then."""

    epoch: int  # 0 where `step` is set
    metric: str
    value: float
    step: int | None = None


@dataclass(frozen=True)
class Progress:
    """How far a job is: `job.progress`, `results(job_id).progress`. Epochs count from 1, also when
    the job counts from 0. Steps are as the job counts them.
    """

    epoch: int = 0  # the newest epoch that the job named; 0: none yet
    epochs: int | None = None  # of how many, once the job has said so
    # the last value of each, always finite
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    best: Best | None = None  # the best epoch, by the metric that tells most about the model
    eta_seconds: float | None = None  # from `as_of` until the last epoch has ended, if it is known
    history: tuple[
        EpochMetrics, ...
    ] = ()  # oldest first; if there are very many, neighbours are merged
    not_finite: tuple[str, ...] = ()  # metrics that are NaN or infinite now
    counts_from_zero: bool = False  # the job itself calls its first epoch 0
    as_of: datetime | None = None  # UTC; when the log was last read to its end, None before
    # metric -> the first epoch (or step) in which it was NaN or infinite, also where it is finite
    # again
    first_not_finite: Mapping[str, int] = field(default_factory=dict[str, int])
    # the newest step, of a job that names steps and no epochs
    step: int | None = None
    steps: int | None = None  # of how many, once the job has said so
    # the job counts from 0 up to and including the total that it tells, as in `epoch 20/20`
    counts_to_total: bool = False

    @property
    def is_counted(self) -> bool:
        """True once the job has named an epoch or a step."""
        return self.epoch > 0 or self.step is not None

    @property
    def unit(self) -> str:
        """The unit of `history`: `epoch` or `step`."""
        if self.step is None:
            return "epoch"
        return "step"

    @property
    def number(self) -> int | None:
        """The newest epoch or step, by the job's own count; None before the first."""
        if self.step is not None:
            return self.step
        if not self.epoch:
            return None
        return self.shown_epoch(self.epoch)

    @property
    def total(self) -> int | None:
        """The number of epochs or steps, by the job's own count; None while it is not known."""
        if self.step is not None:
            return self.steps
        if self.epochs is None or not self.counts_to_total:
            return self.epochs
        return self.epochs - 1

    @property
    def fraction(self) -> float | None:
        """0.0 to 1.0, or None while the number of epochs or steps is not known."""
        if self.step is not None:
            if not self.steps:
                return None
            return min(self.step / self.steps, 1.0)
        if not self.epochs:
            return None
        return min(self.epoch / self.epochs, 1.0)

    @property
    def best_epoch(self) -> int | None:
        """The epoch in which the model was best, or None."""
        if not self.best:
            return None
        return self.best.epoch or None

    def shown_epoch(self, epoch: int) -> int:
        """The job's own number for an epoch that is counted from 1."""
        if self.counts_from_zero:
            return epoch - 1
        return epoch

    def shown_number(self, entry: EpochMetrics | Best) -> int:
        """The job's own number for the epoch or step of the entry."""
        if entry.step is None:
            return self.shown_epoch(entry.epoch)
        return entry.step

    def to_json(self) -> dict[str, Any]:
        """The object `progress` of `--json` (docs/json.md)."""
        best = self.best
        return {
            "epoch": self.epoch,
            "epochs": self.epochs,
            "metrics": dict(self.metrics),
            "best_epoch": self.best_epoch,
            "best_step": best.step if best else None,
            "best_metric": best.metric if best else None,
            "best_value": best.value if best else None,
            "eta_seconds": self.eta_seconds,
            "history": [_entry_to_json(entry) for entry in self.history],
            "not_finite": list(self.not_finite),
            "first_not_finite": dict(self.first_not_finite),
            "counts_from_zero": self.counts_from_zero,
            "counts_to_total": self.counts_to_total,
            "step": self.step,
            "steps": self.steps,
            "as_of": to_iso(self.as_of),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Progress:
        """Read the output of `to_json`. A missing value has its default, so {} is Progress()."""
        return replace(cls.undated(data), as_of=from_iso(data.get("as_of")))

    @classmethod
    def undated(cls, data: Mapping[str, Any]) -> Progress:
        """Like `from_json`, without `as_of`."""
        return cls(
            epoch=data.get("epoch", 0),
            epochs=data.get("epochs"),
            metrics=dict(data.get("metrics", {})),
            best=_best_from_json(data),
            eta_seconds=data.get("eta_seconds"),
            history=tuple(map(_entry_from_json, data.get("history", ()))),
            not_finite=tuple(data.get("not_finite", ())),
            counts_from_zero=data.get("counts_from_zero", False),
            first_not_finite=dict(data.get("first_not_finite", {})),
            step=data.get("step"),
            steps=data.get("steps"),
            counts_to_total=data.get("counts_to_total", False),
        )


def _entry_to_json(entry: EpochMetrics) -> dict[str, Any]:
    """An entry has an epoch or a step."""
    if entry.step is not None:
        return {"step": entry.step, "metrics": dict(entry.metrics)}
    return {"epoch": entry.epoch, "metrics": dict(entry.metrics)}


def _entry_from_json(entry: Mapping[str, Any]) -> EpochMetrics:
    return EpochMetrics(entry.get("epoch", 0), entry["metrics"], entry.get("step"))


def _best_from_json(data: Mapping[str, Any]) -> Best | None:
    metric = data.get("best_metric")
    if not metric:
        return None
    return Best(data.get("best_epoch") or 0, metric, data["best_value"], data.get("best_step"))


def crossed_milestones(before: int, after: int, interval: int) -> range:
    """The multiples of `interval` after epoch `before`, up to epoch `after`."""
    return range((before // interval + 1) * interval, after + 1, interval)


def richer_progress(first: Progress, second: Progress) -> Progress:
    """The progress that is further ahead; if both are equal the one with more metrics, else the
    first.
    """

    def advance(progress: Progress) -> tuple[int, int, int]:
        step = -1 if progress.step is None else progress.step
        return (progress.epoch, step, len(progress.metrics))

    return max((first, second), key=advance)


def telling_metrics(progress: Progress) -> list[str]:
    """The two of the job's present metrics for which a line has room: the loss, then one that says
    more than a loss.

    The second is the one that selects the best epoch, unless that is a loss.
    """
    names = sorted(progress.metrics, key=telling_order)
    losses, others = (
        [name for name in names if is_loss(name)],
        [name for name in names if not is_loss(name)],
    )
    if progress.best and progress.best.metric in others:
        others = [progress.best.metric]
    return [*losses[:1], *others[:1]]


def not_finite_since(progress: Progress) -> dict[str, int]:
    """The metrics that were NaN or infinite, with the first such epoch or step, by the job's own
    count.
    """
    since = dict(progress.first_not_finite)
    for name in progress.not_finite:
        if name not in since:  # a progress that an older version has stored does not have it
            since[name] = _epoch_after_finite(progress, name)
    if progress.unit == "step":
        return since
    return {name: progress.shown_epoch(epoch) for name, epoch in since.items()}


NOT_FINITE_ADVICE = (
    "Lower the learning rate, clip gradients, and check the data for empty or broken samples."
)


def not_finite_words(progress: Progress) -> str:
    """`loss is NaN or infinite from epoch 4 on`; "" if every metric is finite now."""
    since = not_finite_since(progress)
    names = progress.not_finite[:NAMED_METRICS]
    if not progress.is_counted:
        return "; ".join(f"{name} is NaN or infinite" for name in names)
    unit = progress.unit
    return "; ".join(f"{name} is NaN or infinite from {unit} {since[name]} on" for name in names)


def _epoch_after_finite(progress: Progress, name: str) -> int:
    """The epoch after the last one in which the metric was finite."""
    finite = [entry.epoch for entry in progress.history if name in entry.metrics]
    return min(finite[-1] + 1 if finite else 1, max(progress.epoch, 1))


def better_value(first: Best, second: Best) -> Best:
    """The better of two values of one metric; if both are equal, that of the earlier epoch."""
    if first.value == second.value:
        if first.epoch <= second.epoch:
            return first
        return second
    if (first.value < second.value) == smaller_is_better(first.metric):
        return first
    return second
