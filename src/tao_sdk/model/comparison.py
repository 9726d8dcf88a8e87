"""Comparisons: jobs side by side, with the settings in which they differ and their values of a
metric. Pure.

Not here: the settings of one job (model/job_settings.py), where the jobs come from and where the
picture goes (client/compare.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tao_sdk.model.job import Job
from tao_sdk.model.job_settings import PLAIN_WORD, differing_settings, settings_of
from tao_sdk.model.metric_names import is_loss, smaller_is_better, telling_order
from tao_sdk.model.progress import Best, Progress
from tao_sdk.model.ranking import best_value, metrics_of, unknown_metric
from tao_sdk.model.secrets import shown_target


@dataclass(frozen=True)
class Compared:
    """A job beside others: the settings in which they differ, and the best and last value of their
    metric.
    """

    job: Job
    settings: Mapping[str, Any]
    best: Best | None
    last: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.job.id,
            "name": self.job.name,
            "status": self.job.status.value,
            "settings": dict(self.settings),
            "best_value": self.best.value if self.best else None,
            "best_epoch": (self.best.epoch or None) if self.best else None,
            "best_step": self.best.step if self.best else None,
            "last_value": self.last,
        }


@dataclass(frozen=True)
class Comparison:
    """Jobs side by side. `differ` names the settings that are not the same in all. `metric` is None
    if no job has one.
    """

    jobs: tuple[Compared, ...]
    differ: tuple[str, ...]
    metric: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "metric": self.metric,
            "smaller_is_better": smaller_is_better(self.metric) if self.metric else None,
            "differ": list(self.differ),
            "jobs": [job.to_json() for job in self.jobs],
        }


def compare_jobs(jobs: Sequence[Job], metric: str | None = None) -> Comparison:
    """Compare the jobs, in their order, by `metric` or by the metric that most of them have. Raises
    UsageError for a metric that none has.
    """
    settings = with_commands([settings_of(job) for job in jobs])
    differ = differing_settings(settings)
    progresses = [job.progress for job in jobs]
    told = metrics_of(progresses)
    if metric and metric not in told:
        raise unknown_metric(metric, jobs)
    chosen = metric or shared_metric(progresses, told)
    compared = [
        Compared(
            job,
            {name: shown_target(own[name]) for name in differ if name in own},
            best_value(progress, chosen) if chosen else None,
            progress.metrics.get(chosen) if chosen else None,
        )
        for job, own, progress in zip(jobs, settings, progresses, strict=True)
    ]
    return Comparison(tuple(compared), differ, chosen)


def shared_metric(progresses: Sequence[Progress], told: Sequence[str]) -> str | None:
    """The metric that most of the jobs have; if there are several, the most telling."""

    def rank(name: str) -> tuple[int, bool, tuple[bool, bool, bool, bool, str]]:
        having = sum(name in progress.metrics for progress in progresses)
        return (-having, is_loss(name), telling_order(name))

    return min(told, key=rank, default=None)


def with_commands(settings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the plain words into one `command`, for jobs whose commands are unlike.

    Commands are alike if they have as many plain words and the same first one: then each word
    stands by itself.
    """
    commands = [plain_words(own) for own in settings]
    if len({(len(words), *words[:1]) for words in commands}) == 1:
        return list(settings)
    return [
        {"command": " ".join(words), **without_words(own)}
        for words, own in zip(commands, settings, strict=True)
    ]


def plain_words(settings: Mapping[str, Any]) -> list[str]:
    """The words of a command that are no flags, in their order."""
    return [value for name, value in settings.items() if PLAIN_WORD.fullmatch(name)]


def without_words(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if not PLAIN_WORD.fullmatch(name)}
