"""Progress: how far a training job is.

Here: Progress and what follows from it. Not here: how it is read from what a job writes
(model/progress_reader.py), when an epoch comes (model/pace.py), what the name of a metric tells
(model/metric_names.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from tao_sdk.model.clock import from_iso, to_iso
from tao_sdk.model.metric_names import is_loss, smaller_is_better, telling_order


class EpochMetrics(NamedTuple):
    """What was said of one epoch."""

    epoch: int
    metrics: Mapping[str, float]


class Best(NamedTuple):
    """The epoch in which a metric was best, and what it was."""

    epoch: int
    metric: str
    value: float


@dataclass(frozen=True)
class Progress:
    """How far a job is: `job.progress`, `results(job_id).progress`. Epochs count from 1, also when
    the job counts from 0.
    """

    epoch: int = 0  # the newest epoch the job spoke of; 0: none yet
    epochs: int | None = None  # of how many, once the job has said so
    # the last value of each, always finite
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    best: Best | None = None  # the best epoch, by the metric that tells most about the model
    eta_seconds: float | None = None  # from `as_of` until the last epoch has ended, if it is known
    history: tuple[
        EpochMetrics, ...
    ] = ()  # oldest first; of very many epochs neighbours are merged
    not_finite: tuple[str, ...] = ()  # metrics that are NaN or infinite now
    counts_from_zero: bool = False  # the job itself calls its first epoch 0
    as_of: datetime | None = None  # UTC; when the log was last read to its end, None before
    # metric -> the first epoch in which it was NaN or infinite, also where it is finite again
    first_not_finite: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def fraction(self) -> float | None:
        """0.0 to 1.0, or None while the number of epochs is not known."""
        return min(self.epoch / self.epochs, 1.0) if self.epochs else None

    @property
    def best_epoch(self) -> int | None:
        """The epoch in which the model was best, or None."""
        return self.best.epoch if self.best else None

    def to_json(self) -> dict[str, Any]:
        """The object `progress` of `--json` (docs/json.md)."""
        best = self.best
        return {
            "epoch": self.epoch,
            "epochs": self.epochs,
            "metrics": dict(self.metrics),
            "best_epoch": best.epoch if best else None,
            "best_metric": best.metric if best else None,
            "best_value": best.value if best else None,
            "eta_seconds": self.eta_seconds,
            "history": [
                {"epoch": entry.epoch, "metrics": dict(entry.metrics)} for entry in self.history
            ],
            "not_finite": list(self.not_finite),
            "first_not_finite": dict(self.first_not_finite),
            "counts_from_zero": self.counts_from_zero,
            "as_of": to_iso(self.as_of),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Progress:
        """The Progress that `to_json` gave; what is missing has its default, so {}
        is Progress().
        """
        return replace(cls.undated(data), as_of=from_iso(data.get("as_of")))

    @classmethod
    def undated(cls, data: Mapping[str, Any]) -> Progress:
        """The same without its time."""
        metric = data.get("best_metric")
        return cls(
            epoch=data.get("epoch", 0),
            epochs=data.get("epochs"),
            metrics=dict(data.get("metrics", {})),
            best=Best(data["best_epoch"], metric, data["best_value"]) if metric else None,
            eta_seconds=data.get("eta_seconds"),
            history=tuple(
                EpochMetrics(entry["epoch"], entry["metrics"]) for entry in data.get("history", ())
            ),
            not_finite=tuple(data.get("not_finite", ())),
            counts_from_zero=data.get("counts_from_zero", False),
            first_not_finite=dict(data.get("first_not_finite", {})),
        )


def crossed_milestones(before: int, after: int, interval: int) -> range:
    """The multiples of `interval` that were crossed on the way from epoch `before` to epoch
    `after`.
    """
    return range((before // interval + 1) * interval, after + 1, interval)


def richer_progress(first: Progress, second: Progress) -> Progress:
    """Of what two streams of one job say, the one that is further, then the one that says more,
    then the first.
    """
    return max((first, second), key=lambda progress: (progress.epoch, len(progress.metrics)))


def telling_metrics(progress: Progress) -> list[str]:
    """The loss, then what tells more than a loss, of the metrics that the job has now: what a line
    has room for.

    The second is the one by which the best epoch is chosen, where that is no loss.
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
    """Metrics that were NaN or infinite, with the first such epoch."""
    since = dict(progress.first_not_finite)
    for name in progress.not_finite:
        if name in since:  # a progress that an older version has stored does not have it
            continue
        finite = [entry.epoch for entry in progress.history if name in entry.metrics]
        since[name] = min(finite[-1] + 1 if finite else 1, max(progress.epoch, 1))
    return since


def better_value(first: Best, second: Best) -> Best:
    """The better of two values of one metric; of equals the earlier epoch."""
    if first.value == second.value:
        return first if first.epoch <= second.epoch else second
    return first if (first.value < second.value) == smaller_is_better(first.metric) else second
