"""Ranking: the best value of a metric in each job, and jobs in the order that somebody asked for.
Pure.

Not here: which values are better (model/progress.py), which settings a job has
(model/job_settings.py), and how they are shown (cli/show.py, client/compare.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from tao_sdk.model.errors import UsageError
from tao_sdk.model.job import Job
from tao_sdk.model.job_settings import (
    PLAIN_WORD,
    differing_settings,
    ends_as,
    near_setting,
    number_or_text,
    setting_meant,
    settings_of,
)
from tao_sdk.model.metric_names import smaller_is_better, telling_order
from tao_sdk.model.progress import Best, Progress, better_value
from tao_sdk.model.status import Status

# the orders beside metrics, settings and labels
FIXED_ORDERS = ("created", "name", "status")
MOST_SWEPT = 3  # settings that a list shows
MOST_NAMED = 12  # settings that an error names
_STATUS_ORDER = {status: place for place, status in enumerate(Status)}


def best_value(progress: Progress, metric: str) -> Best | None:
    """The best known value of `metric`; None if no value is known."""
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
    """Every metric that any of them has, the most telling first."""
    names: set[str] = set()
    for progress in progresses:
        names.update(progress.metrics, *(entry.metrics for entry in progress.history))
    return sorted(names, key=telling_order)


def in_order(jobs: Sequence[Job], order: str) -> list[Job]:
    """Sort jobs, given the newest first, by `created`, `name`, `status`, the best value of a
    metric, or the value of a setting or label. Equal jobs stay in the order given.

    By a metric the best comes first, by a setting the smallest; a job without it comes last. Raises
    UsageError for any other word.
    """
    if order == "created" or not jobs:
        return list(jobs)
    if order == "name":
        return sorted(jobs, key=lambda job: job.name)
    if order == "status":
        return sorted(jobs, key=lambda job: _STATUS_ORDER[job.status])
    if setting := sorting_setting(jobs, order):
        return _by_setting(jobs, setting)
    return _by_metric(jobs, order)


def sorting_setting(jobs: Sequence[Job], order: str) -> str:
    """The flat name of the setting or label that an order means; "" for a metric and for `created`,
    `name` and `status`.

    Raises UsageError if the order can mean several settings, or if no job has such a setting.
    """
    if order in FIXED_ORDERS or not jobs:
        return ""
    if any(best_value(job.progress, order) for job in jobs):
        return ""
    setting = setting_meant((name for job in jobs for name in settings_of(job)), order)
    if not setting:
        raise unknown_order(order, jobs)
    return setting


def swept_settings(jobs: Sequence[Job]) -> list[str]:
    """The flat names of the few settings in which jobs differ, as in a sweep; [] if they differ in
    many. Labels are left out, and so are settings that a label repeats.
    """
    differing = differing_settings([settings_of(job) for job in jobs])
    labels = {name.removeprefix("label ") for name in differing if name.startswith("label ")}
    swept = [
        name
        for name in differing
        if not name.startswith("label ")
        and not PLAIN_WORD.fullmatch(name)
        and not any(ends_as(name, label) for label in labels)
    ]
    return swept if len(swept) <= MOST_SWEPT else []


def _by_setting(jobs: Sequence[Job], setting: str) -> list[Job]:
    """Sort the jobs, the smallest value first: numbers as numbers, then texts, then jobs
    without it.
    """
    with_value = [(job, settings_of(job).get(setting)) for job in jobs]
    having = [(job, value) for job, value in with_value if value is not None]
    without = [job for job, value in with_value if value is None]
    having.sort(key=lambda pair: number_or_text(pair[1]))
    return [*(job for job, _ in having), *without]


def _by_metric(jobs: Sequence[Job], metric: str) -> list[Job]:
    bests = {job.id: best_value(job.progress, metric) for job in jobs}
    sign = 1 if smaller_is_better(metric) else -1

    def place(job: Job) -> tuple[bool, float]:
        best = bests[job.id]
        return (best is None, sign * best.value if best else 0.0)

    return sorted(jobs, key=place)


def unknown_metric(metric: str, jobs: Sequence[Job]) -> UsageError:
    what, known = f"None of these jobs has a metric {metric!r}.", known_metrics(jobs)
    if near := near_metric(metric, jobs):
        return UsageError(what, known, f"Did you mean {near}?")
    return UsageError(what, "", known)


def unknown_order(order: str, jobs: Sequence[Job]) -> UsageError:
    """The error for a word that is no order of these jobs, with the orders that they have."""
    what = f"None of these jobs has a metric, a setting or a label {order!r}."
    differing = differing_settings([settings_of(job) for job in jobs])
    known = [name for name in differing if not PLAIN_WORD.fullmatch(name)]
    if near := near_metric(order, jobs) or near_setting(known, order) or near_fixed(order):
        return UsageError(what, known_metrics(jobs), f"Did you mean {near}?")
    if not known:
        return UsageError(what, "", known_metrics(jobs))
    rest = [f"and {len(known) - MOST_NAMED} more"] if len(known) > MOST_NAMED else []
    names = ", ".join([*known[:MOST_NAMED], *rest])
    return UsageError(what, known_metrics(jobs), f"Settings in which they differ: {names}.")


def near_metric(word: str, jobs: Iterable[Job]) -> str:
    """The metric of these jobs that is like the word, or begins with it; "" if there is none."""
    from difflib import get_close_matches

    known = metrics_of(job.progress for job in jobs)
    near = get_close_matches(word.lower(), known, n=1, cutoff=0.7)
    begun = [name for name in known if word and name.startswith(word.lower())]
    return next(iter([*near, *begun]), "")


def near_fixed(word: str) -> str:
    """The fixed order that is like the word; "" if there is none."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word.lower(), FIXED_ORDERS, n=1, cutoff=0.7)), "")


def known_metrics(jobs: Iterable[Job]) -> str:
    """`They have: accuracy, loss.`"""
    told = metrics_of(job.progress for job in jobs)
    return f"They have: {', '.join(told)}." if told else "They have told no metric yet."
