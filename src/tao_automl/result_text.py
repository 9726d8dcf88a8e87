"""Result text: what AutoMLRunner.run returned, as lines for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from tao_sdk.model.printable import printable

Json = Mapping[str, Any]


def format_result(result: Json) -> str:
    """The result of `AutoMLRunner.run` as text: the best with its parameters, each trial, the
    comparison with the baseline, the final evaluation, the front. What is missing is `n/a`.
    """
    return "\n".join(result_lines(result))


def result_lines(result: Json) -> Iterator[str]:
    baseline, final = part_of(result, "baseline"), part_of(result, "final_evaluation")
    metric = printable(str(final.get("metric_name") or baseline.get("metric_name") or "metric"))
    progress = part_of(result, "progress")
    yield "AutoML result"
    counted = f"{shown(progress.get('completed'))}/{shown(progress.get('total'))}"
    yield f"  algorithm={shown(progress.get('algorithm'))} completed={counted}"
    yield ""
    yield from best_lines(part_of(result, "best"), metric)
    yield from history_lines(cast("Sequence[Json]", result.get("history") or ()), metric)
    yield ""
    yield from baseline_lines(baseline, metric)
    yield from final_lines(final, metric)
    if "pareto_front" in result:
        yield ""
        yield f"Pareto front: {len(result['pareto_front'] or ())} recommendation(s)"


def part_of(result: Json, name: str) -> Json:
    return cast("Json | None", result.get(name)) or {}


def best_lines(best: Json, metric: str) -> Iterator[str]:
    yield f"Best: rec {shown(best.get('rec_id'))}, {metric}={shown(best.get('metric_value'))}"
    specs = part_of(best, "specs")
    for key in sorted(specs):
        yield f"  {printable(key)} = {shown(specs[key])}"


def history_lines(history: Sequence[Json], metric: str) -> Iterator[str]:
    if not history:
        return
    yield ""
    yield "History:"
    yield f"  {'rec':>4}  {'status':<10} {metric}"
    for entry in history:
        status = f"{shown(entry.get('rec_id')):>4}  {shown(entry.get('status')):<10}"
        reason = entry.get("failure_reason")
        words = f"  ({shown(reason)})" if reason else ""
        yield f"  {status} {shown(entry.get('metric'))}{words}"


def baseline_lines(baseline: Json, metric: str) -> Iterator[str]:
    if baseline.get("metric_value") is None:
        yield f"Baseline: {shown(baseline.get('status') or 'not_run')}"
        return
    yield f"Baseline: {metric}={shown(baseline.get('metric_value'))}"
    yield f"  {comparison_text('best vs baseline', baseline.get('comparison_to_best'))}"


def final_lines(final: Json, metric: str) -> Iterator[str]:
    yield f"Final evaluation: {shown(final.get('status') or 'not_run')}"
    if final.get("failure_reason"):
        yield f"  reason: {shown(final['failure_reason'])}"
    if final.get("metric_value") is not None:
        yield f"  {metric}={shown(final['metric_value'])}"
        yield f"  {comparison_text('vs baseline', final.get('comparison_to_baseline'))}"
    if final.get("record_path"):
        yield f"  record: {shown(final['record_path'])}"


def comparison_text(words: str, comparison: Json | None) -> str:
    if not comparison:
        return f"{words}: n/a"
    verdict = "improved" if comparison.get("improved") else "not improved"
    direction = shown(comparison.get("direction"))
    return f"{words}: {verdict} by {shown(comparison.get('delta'))} ({direction})"


def shown(value: Any) -> str:
    """A value in a line: numbers with six digits, `n/a` for none."""
    if value is None:
        return "n/a"
    if isinstance(value, float):
        return f"{value:.6g}"
    return printable(str(value))
