"""Job report: what a trial's job says of the trial, read from its progress and its diagnosis.

Here: from a Job to a TrialReport. Not here: what a search makes of it (reports.py), and which job
is whose (drive.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tao_automl.artifacts import scores_of, status_progress
from tao_automl.decisions import Outcome, TrialReport
from tao_automl.settings import SearchSettings
from tao_automl.trial import Curve, Objective, Trial
from tao_sdk.model.errors import TaoError
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from tao_sdk.client import Client
    from tao_sdk.model.job import Job
    from tao_sdk.model.progress import EpochMetrics, Progress

ReadValues = Callable[["Job"], "Mapping[str, float] | None"]
BEST = "best"


def report_of(
    client: Client,
    job: Job,
    trial: Trial,
    settings: SearchSettings,
    read_values: ReadValues | None = None,
) -> TrialReport:
    """The report of a job that has ended. `read_values` takes the place of the progress reader.
    What it does not have is looked for in the files of the job's results. Raises Unreachable where
    they cannot be asked.
    """
    if job.status is Status.CANCELED:
        return TrialReport(trial.number, trial.rung, Outcome.STOPPED, reason="it was canceled")
    if job.status is Status.ERROR:
        return failure_of(client, job, trial)
    progress = job.progress
    values = read_values(job) if read_values else values_of(progress, settings)
    return TrialReport(
        trial.number,
        trial.rung,
        Outcome.COMPLETE,
        with_artifacts(client, job, settings, values or {}),
        reported=tuple(sorted({*progress.metrics, *progress.not_finite})),
        curve=curve_of(progress, settings.goals[0]),
    )


def failure_of(client: Client, job: Job, trial: Trial) -> TrialReport:
    """The report of a job whose program failed: its cause, and the rule that knows it."""
    found = client.diagnose(job.id)
    reason = found.what if found else job.current_message
    rule = found.rule if found else ""
    return TrialReport(trial.number, trial.rung, Outcome.FAILED, reason=reason, rule=rule)


def refusal_of(trial: Trial, error: TaoError) -> TrialReport:
    """The report of a trial whose job could not be submitted. One that was to be promoted stays
    what it was.
    """
    reason = f"its job was refused: {error.what}"
    outcome = Outcome.UNAVAILABLE if trial.results else Outcome.FAILED
    return TrialReport(trial.number, trial.rung, outcome, reason=reason, rule=error.code)


def values_of(progress: Progress, settings: SearchSettings) -> dict[str, float]:
    """The value of each objective's metric, where it was reported: the last one, or those of the
    epoch that was best by the first goal.
    """
    names = [objective.metric for objective in settings.objectives]
    values = {name: progress.metrics[name] for name in names if name in progress.metrics}
    if settings.metric_at == BEST:
        values.update(best_values(progress.history, settings.goals[0], names))
    values.update({name: math.nan for name in names if name in progress.not_finite})
    return values


def with_artifacts(
    client: Client, job: Job, settings: SearchSettings, values: Mapping[str, float]
) -> dict[str, float]:
    """The values, and for metrics that are missing those of status.json, metrics.json and
    best_score.json among the results.
    """
    missing = {one.metric for one in settings.objectives} - values.keys()
    if not missing:
        return dict(values)
    found = scores_of(client, job)
    if progress := status_progress(client, job):
        found = {**found, **values_of(progress, settings)}
    return {**{name: found[name] for name in missing if name in found}, **values}


def best_values(
    history: Sequence[EpochMetrics], goal: Objective, names: Iterable[str]
) -> dict[str, float]:
    measured = [entry.metrics for entry in history if goal.metric in entry.metrics]
    if not measured:
        return {}
    best = min(measured, key=lambda metrics: goal.loss(metrics[goal.metric]))
    return {name: best[name] for name in names if name in best}


def curve_of(progress: Progress, goal: Objective) -> Curve:
    """The goal's metric at each epoch, or step, that reported it."""
    return tuple(
        (entry.epoch if entry.step is None else entry.step, entry.metrics[goal.metric])
        for entry in progress.history
        if goal.metric in entry.metrics
    )
