"""The trials of a search as CSV, for spreadsheets and programs. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tao_automl.report.view import SearchView, TrialView

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would compute such a text
FIRST, LAST = ("trial", "job", "status"), ("epoch", "proposed_by", "reason")


def trials_csv(view: SearchView) -> str:
    """A line for each trial: trial, job, status, each metric, each parameter, epoch, proposed_by,
    reason. What does not apply is empty; a list is JSON.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*FIRST, *metric_names(view), *parameter_names(view), *LAST])
    for trial in view.trials:
        writer.writerow(map(cell_text, row_cells(view, trial)))
    return text.getvalue()


def metric_names(view: SearchView) -> list[str]:
    return [text_cell(objective.metric) for objective in view.objectives]


def parameter_names(view: SearchView) -> list[str]:
    """The keys; `param.loss` where a metric or another column has that name."""
    taken = {*FIRST, *LAST, *metric_names(view)}
    return [text_cell(f"param.{key}" if key in taken else key) for key in view.space.keys]


def row_cells(view: SearchView, trial: TrialView) -> Iterator[Any]:
    yield from (trial.number, trial.job, trial.status)
    yield from (trial.values.get(objective.metric) for objective in view.objectives)
    yield from (known_value(trial.params, key) for key in view.space.keys)
    yield from (trial.epoch, trial.proposed_by, trial.reason)


def known_value(params: Mapping[str, Any], key: str) -> Any:
    """The value of a parameter: None where it does not apply, "null" where it is none."""
    if key not in params:
        return None
    return "null" if params[key] is None else params[key]


def cell_text(value: Any) -> str:
    """The text of a cell; csv itself quotes it. A number stays one."""
    if value is None:
        return ""
    if isinstance(value, str):
        return text_cell(value)
    return json.dumps(value)


def text_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula, without characters that cannot be stored."""
    text = text.replace("\0", "")
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
