"""Evaluations: the baseline and the final evaluation of a result, with their documented statuses.

Pure but for the functions of a caller, which called.py calls. Not here: the evaluate action of a
skill as a job (runner.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tao_automl.called import Caller, numbers_of
from tao_automl.settings import SearchSettings
from tao_automl.trial import MINIMIZE

# Statuses. Of the baseline: first_trial is the spec as it stands, which the search tries first.
MEASURED, PROVIDED, SKIPPED, UNAVAILABLE = "measured", "provided", "skipped", "unavailable"
FIRST_TRIAL, FAILURE, METRIC_MISSING = "first_trial", "failure", "metric_missing"
REUSED_BEST, CALLBACK_ERROR, NOT_RUN = "reused_best", "callback_error", "not_run"

Evaluation = dict[str, Any]


def measured_before(
    settings: SearchSettings,
    function: Callable[..., Any] | None,
    spec: Mapping[str, Any],
    own: Caller,
) -> Evaluation:
    """The baseline as far as it is known before the first trial; else its status is NOT_RUN."""
    metric = settings.goals[0].metric
    found = empty_evaluation(metric, settings.run_baseline)
    if not settings.run_baseline:
        return {**found, "status": SKIPPED}
    if settings.baseline_metric is not None:
        return {**found, "status": PROVIDED, "metric_value": settings.baseline_metric}
    if function is None:
        return found
    value = own.call("baseline_fn", None, function, dict(spec))
    return with_value(found, value, own.last_error("baseline_fn"), FAILURE)


def compared_baseline(
    baseline: Evaluation, first: float | None, best: float | None, direction: str
) -> Evaluation:
    """The baseline after the search: the first trial's value where nothing else was measured."""
    if baseline["status"] == NOT_RUN:
        status = UNAVAILABLE if first is None else FIRST_TRIAL
        baseline = {**baseline, "status": status, "metric_value": first}
    compared = comparison_of(baseline["metric_value"], best, direction)
    return {**baseline, "comparison_to_best": compared}


def empty_evaluation(metric: str, is_enabled: bool) -> Evaluation:
    return {
        "enabled": is_enabled,
        "metric_name": metric,
        "metric_value": None,
        "status": NOT_RUN,
    }


def with_value(found: Evaluation, value: Any, error: str, failed: str) -> Evaluation:
    """The evaluation with what a function gave."""
    if error:
        return {**found, "status": failed, "failure_reason": error}
    numbers = numbers_of(value, found["metric_name"]) or {}
    number = numbers.get(found["metric_name"])
    if number is None:
        return {**found, "status": METRIC_MISSING}
    more = {"record_path": value["record_path"]} if has_record(value) else {}
    return {**found, "status": MEASURED, "metric_value": number, **more}


def has_record(value: Any) -> bool:
    return isinstance(value, Mapping) and "record_path" in value


def final_without_job(
    settings: SearchSettings, function: Callable[..., Any] | None, best: Any, own: Caller
) -> Evaluation:
    """The final evaluation, where no job is needed for it; else its status is NOT_RUN."""
    found = empty_evaluation(settings.goals[0].metric, settings.run_final_evaluation)
    if not settings.run_final_evaluation:
        return {**found, "status": SKIPPED}
    if settings.final_evaluation_metric is not None:
        value = settings.final_evaluation_metric
        return {**found, "status": PROVIDED, "metric_value": value, "source": PROVIDED}
    if best is None:
        return {**found, "status": UNAVAILABLE, "failure_reason": "no trial succeeded"}
    if function is not None:
        value = own.call("final_eval_fn", best.id, function, best, best.job_id)
        error = own.last_error("final_eval_fn")
        return {**with_value(found, value, error, CALLBACK_ERROR), "source": "final_eval_fn"}
    if settings.reuse_best_metric_for_final_evaluation:
        reused = {"metric_value": best.result, "source": "best_selection_metric"}
        return {**found, "status": REUSED_BEST, **reused}
    return found


def comparison_of(
    baseline: float | None, value: float | None, direction: str
) -> dict[str, Any] | None:
    """How much better a value is than the baseline; None where either is not known."""
    if baseline is None or value is None:
        return None
    delta = baseline - value if direction == MINIMIZE else value - baseline
    return {"delta": delta, "improved": delta > 0, "direction": direction}
