"""Ranking: the best value of a metric in each job, and jobs in the order that somebody asked for.
Pure.

Not here: which values are better (model/progress.py), and what is shown of them (cli/show.py,
client/compare.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from tao_sdk.model.errors import UsageError
from tao_sdk.model.job import Job
from tao_sdk.model.metric_names import smaller_is_better, telling_order
from tao_sdk.model.progress import Best, Progress, better_value
from tao_sdk.model.status import Status

FIXED_ORDERS = ("created", "name", "status")  # what jobs can be sorted by beside a metric
_STATUS_ORDER = {status: place for place, status in enumerate(Status)}


def best_value(progress: Progress, metric: str) -> Best | None:
    """The best value of `metric` that is still known; None where it was never told."""
    values = list(_metric_values(progress, metric))
    if not values:
        return None
    return reduce(better_value, values)


def _metric_values(progress: Progress, metric: str) -> Iterator[Best]:
    if progress.best and progress.best.metric == metric:
        yield progress.best
    for entry in progress.history:
        if metric in entry.metrics:
            yield Best(entry.epoch, metric, entry.metrics[metric], entry.step)
    if metric in progress.metrics:
        yield Best(progress.epoch, metric, progress.metrics[metric], progress.step)


def metrics_of(progresses: Iterable[Progress]) -> list[str]:
    """Every metric that any of them has told, the most telling first."""
    names: set[str] = set()
    for progress in progresses:
        names.update(progress.metrics, *(entry.metrics for entry in progress.history))
    return sorted(names, key=telling_order)


def in_order(jobs: Sequence[Job], order: str) -> list[Job]:
    """Jobs, given the newest first, by `created`, `name`, `status`, or the best value of a metric;
    others stay as given.

    By a metric the best comes first, and a job without it last. Raises UsageError for a metric that
    no job has.
    """
    if order == "created" or not jobs:
        return list(jobs)
    if order == "name":
        return sorted(jobs, key=lambda job: job.name)
    if order == "status":
        return sorted(jobs, key=lambda job: _STATUS_ORDER[job.status])
    return _by_metric(jobs, order)


def _by_metric(jobs: Sequence[Job], metric: str) -> list[Job]:
    bests = {job.id: best_value(job.progress, metric) for job in jobs}
    if not any(bests.values()):
        raise unknown_metric(metric, jobs)
    sign = 1 if smaller_is_better(metric) else -1

    def place(job: Job) -> tuple[bool, float]:
        best = bests[job.id]
        return (best is None, sign * best.value if best else 0.0)

    return sorted(jobs, key=place)


def unknown_metric(metric: str, jobs: Iterable[Job]) -> UsageError:
    told = metrics_of(job.progress for job in jobs)
    known = f"They have: {', '.join(told)}." if told else "They have told no metric yet."
    return UsageError(f"None of these jobs has a metric {metric!r}.", "", known)
