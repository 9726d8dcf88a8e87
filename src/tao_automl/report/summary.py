"""Lines about a search: what it is, where it stands, how it ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tao_automl.report.view import SearchView, TrialView
from tao_sdk.model.curve import format_number
from tao_sdk.model.printable import printable
from tao_sdk.model.reasons import Reason
from tao_sdk.model.status import Status
from tao_sdk.model.units import format_clock

if TYPE_CHECKING:
    from tao_sdk.model.job import Job

MOST_PARAMS = 4  # of a configuration, in one line
LONGEST_VALUE = 24  # characters
JUST_SENT = (None, Reason.SUBMITTING, Reason.SUBMITTED)
SIGNS = {"Complete": "✓", "Stopped": "■", "Error": "✗", "Running": "▸"}


def head_line(view: SearchView) -> str:
    """`ID  bayesian  accuracy (maximize)  12 trials, 2 at once  ·  3 parameters`."""
    goals = ", ".join(f"{printable(goal.metric)} ({goal.direction})" for goal in view.goals)
    count = len(view.space.parameters)
    trials = f"{counted(view.most_trials, 'trial')}, {view.concurrency} at once"
    return f"{view.id}  {view.algorithm}  {goals}  {trials}  ·  {counted(count, 'parameter')}"


def trial_line(view: SearchView) -> str:
    """`trial 12/12  accuracy 0.972  best 0.986 (trial 9: learning_rate 0.0043, hidden_units 192)`:
    the newest value, and the best so far.
    """
    parts = [f"trial {len(view.trials)}/{view.counts['total']}"]
    valued = [trial for trial in view.trials if trial.value is not None]
    if valued:
        newest = max(valued, key=lambda trial: (trial.ended or 0.0, trial.number))
        parts.append(value_text(view, newest))
    if view.best:
        best = f"trial {view.best.number}: {params_text(view, view.best.params)}"
        parts.append(f"best {number_text(view.best.value)} ({best})")
    return "  ".join(parts)


def eta_seconds(view: SearchView, seconds: float) -> float | None:
    """How long the trials that are left will take at the pace so far, after `seconds`; None before
    the first has ended.
    """
    numbers = view.counts
    done = numbers["complete"] + numbers["failed"] + numbers["stopped"]
    if not done:
        return None
    return seconds / done * (numbers["total"] - done)


def end_line(view: SearchView, seconds: float | None = None) -> str:
    """`✓ Complete in 0:31 · accuracy 0.986, as it stood 0.961 · 11 complete, 1 failed ·
    learning_rate matters most (71 %)`.
    """
    parts = [f"{SIGNS.get(view.status, '')} {view.status}".strip()]
    if seconds is not None:
        parts[0] += f" in {format_clock(seconds)}"
    parts.extend(result_parts(view))
    if view.message:
        parts.append(printable(view.message))
    return " · ".join(parts)


def wait_text(job: Job) -> str:
    """Why a trial's job waits; "" for one that runs, is over, or was only just sent."""
    waits = job.status is not Status.RUNNING and not job.status.terminal
    if not waits or job.reason_code in JUST_SENT:
        return ""
    return printable(" ".join(job.message.split()))


def result_parts(view: SearchView) -> list[str]:
    parts: list[str] = []
    if view.best:
        parts.append(best_text(view, view.best))
    numbers = view.counts
    names = {name: name for name in ("complete", "failed", "stopped", "running")}
    if view.status != "Running":
        names["running"] = "not finished"
    shown = [f"{numbers[name]} {word}" for name, word in names.items() if numbers[name]]
    parts.extend([", ".join(shown)] if shown else ["no trial"])
    if view.importance:
        key = next(iter(view.importance))
        share = round(100 * view.importance[key])
        parts.append(f"{short_key(view, key)} matters most ({share} %)")
    return parts


def best_text(view: SearchView, best: TrialView) -> str:
    words = value_text(view, best)
    if view.baseline and view.baseline.epoch == best.epoch:
        return f"{words}, as it stood {number_text(view.baseline.value)}"
    return words


def value_text(view: SearchView, trial: TrialView) -> str:
    """`accuracy 0.986`, of every goal."""
    return ", ".join(
        f"{printable(goal.metric)} {number_text(trial.values.get(goal.metric))}"
        for goal in view.goals
    )


def params_text(view: SearchView, params: Mapping[str, Any]) -> str:
    """`learning_rate 0.0043, hidden_units 192`: those that matter most first, at most four."""
    order = [*view.importance, *view.space.keys]
    keys = sorted(params, key=order.index)
    shown = [f"{short_key(view, key)} {param_text(params[key])}" for key in keys[:MOST_PARAMS]]
    return ", ".join([*shown, *(["..."] if len(keys) > MOST_PARAMS else [])]) or "as it stands"


def short_key(view: SearchView, key: str) -> str:
    """The last part of a key, where no other parameter ends alike."""
    last = key.rpartition(".")[2]
    alike = [other for other in view.space.keys if other.rpartition(".")[2] == last]
    return printable(last if len(alike) == 1 else key)


def param_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    text = printable(str(value))
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def number_text(value: float | None) -> str:
    return "-" if value is None else format_number(value)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
