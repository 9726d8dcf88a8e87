"""Reports: what a search makes of what its driver says: results, failures, limits, ends. Pure.

Here: how a report changes a trial, and when nothing new may start. Not here: what starts next
(rungs/, propose/).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tao_automl.decisions import EndStatus, Known, Outcome, TrialReport
from tao_automl.rungs import early_stop
from tao_automl.state import Closing, Search
from tao_automl.trial import RungResult, Trial, TrialStatus, has_all_metrics, is_finite

ALIKE = 3  # so many failures of one kind mean that nothing will get better
NO_METRIC, NOT_FINITE = "metric.missing", "metric.not_finite"  # rules of our own


def with_reports(search: Search, known: Known) -> Search:
    """The search with every report that is news. Raises KeyError for a trial it does not have."""
    for report in known.reports:
        trial = search.trial(report.trial)
        if trial.is_running and trial.rung == report.rung:
            search = search.with_trial(after_report(search, trial, report))
    return search


def after_report(search: Search, trial: Trial, report: TrialReport) -> Trial:
    if report.outcome is Outcome.COMPLETE:
        return after_result(search, trial, report)
    if report.outcome is Outcome.UNAVAILABLE:
        return after_no_checkpoint(trial, report)
    if report.outcome is Outcome.STOPPED:
        return ended(trial, TrialStatus.STOPPED, trial.stopping or report.reason)
    return ended(trial, TrialStatus.FAILED, report.reason or "its job failed", report.rule)


def ended(trial: Trial, status: TrialStatus, reason: str, rule: str = "") -> Trial:
    return replace(trial, status=status, reason=reason, rule=rule, stopping="")


def after_result(search: Search, trial: Trial, report: TrialReport) -> Trial:
    """With a number for every objective it is complete, else it has failed and says why."""
    objectives = search.settings.objectives
    values = report.values or {}
    if not has_all_metrics(objectives, values):
        reason, rule = missing_metric(search, report)
        return ended(trial, TrialStatus.FAILED, reason, rule)
    numbers = {one.metric: float(values[one.metric]) for one in objectives}
    curve = report.curve if search.settings.keeps_curves else ()
    result = RungResult(trial.rung, trial.epochs, numbers, curve)
    complete = ended(trial, TrialStatus.COMPLETE, "")
    note = report.feedback or trial.note
    return replace(complete, results=(*trial.results, result), note=note)


def missing_metric(search: Search, report: TrialReport) -> tuple[str, str]:
    """Which metric is missing or no number, and what was reported instead."""
    values = report.values or {}
    for objective in search.settings.objectives:
        value = values.get(objective.metric)
        if value is None:
            seen = ", ".join(report.reported) or "nothing"
            return f"{objective.metric} was never reported; reported were: {seen}", NO_METRIC
        if not is_finite(value):
            return f"{objective.metric} is {value}", NOT_FINITE
    raise ValueError("every metric is there")


def after_no_checkpoint(trial: Trial, report: TrialReport) -> Trial:
    """A promotion that could not start leaves the trial what it was; it is not promoted again."""
    if not trial.results:
        return ended(trial, TrialStatus.FAILED, report.reason or "its checkpoint is not there")
    last = trial.results[-1]
    before = ended(trial, TrialStatus.COMPLETE, "")
    return replace(before, rung=last.rung, epochs=last.epochs, held=True, note=report.reason)


def closing_of(search: Search, known: Known) -> Closing | None:
    """Why nothing new may start from now on, or None."""
    if reason := hopeless(search):
        return Closing(EndStatus.ERROR, reason)
    if reason := limit_reached(search, known):
        return Closing(EndStatus.COMPLETE, reason)
    return None


def limit_reached(search: Search, known: Known) -> str:
    """The budget that is used up, in words; "" while there is none. `max_jobs` is looked at where a
    job starts.
    """
    settings = search.settings
    if settings.max_gpu_hours and known.gpu_seconds >= settings.max_gpu_hours * 3600:
        return f"its limit of {settings.max_gpu_hours:g} GPU hours is reached"
    if settings.max_wall_time and known.wall_seconds >= settings.max_wall_time:
        return f"its time limit of {settings.max_wall_time:g} s is reached"
    return ""


def hopeless(search: Search) -> str:
    """Why more trials would fail as well; "" where that is not to be expected."""
    trials = search.trials[search.forgiven :]
    last = [trial for trial in trials if not trial.is_running][-ALIKE:]
    if len(last) == ALIKE and all(trial.rule == NO_METRIC for trial in last):
        return f"{ALIKE} trials in a row: {last[-1].reason}"
    first = trials[:ALIKE]
    rules = {trial.rule for trial in first}
    if len(first) == ALIKE and len(rules) == 1 and rules != {""}:
        return f"the first {ALIKE} trials failed alike: {first[-1].reason}"
    return ""


def nothing_succeeded(search: Search) -> str:
    """Why a search that has done everything has no result."""
    failures = [trial.reason for trial in search.trials if trial.status is TrialStatus.FAILED]
    if failures:
        return f"no trial succeeded; the last one: {failures[-1]}"
    return "no trial gave a result"


def stops_of(search: Search, known: Known) -> Iterator[tuple[int, str]]:
    """Each trial that runs and is to end now, with the reason."""
    if search.closing and (reason := ends_what_runs(search, known)):
        yield from ((one.number, reason) for one in search.running if not one.stopping)
        return
    for progress in known.progress:
        trial = search.trial(progress.trial)
        if not trial.is_running or trial.stopping:
            continue
        if reason := early_stop.reason_to_stop(search, trial, progress.curve):
            yield trial.number, reason


def ends_what_runs(search: Search, known: Known) -> str:
    """Why also what runs has to end: the time is over, or there is no use in it."""
    if search.closing and search.closing.status is EndStatus.ERROR:
        return search.closing.reason
    settings = search.settings
    if settings.max_wall_time and known.wall_seconds >= settings.max_wall_time:
        return limit_reached(search, known)
    return ""
