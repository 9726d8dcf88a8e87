"""Results as callers tell them: statuses and numbers of any kind, as a search wants them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, SupportsFloat, cast

from tao_automl.decisions import Outcome
from tao_automl.near import near_name
from tao_automl.recommendation import (
    CANCELED,
    CANCELING,
    FAILURE,
    PENDING,
    RUNNING,
    STARTED,
    SUCCESS,
)
from tao_automl.state import Search
from tao_sdk.model.errors import UsageError

OUTCOMES: Mapping[str, Outcome] = {
    SUCCESS: Outcome.COMPLETE,
    "done": Outcome.COMPLETE,
    FAILURE: Outcome.FAILED,
    "error": Outcome.FAILED,
    CANCELED: Outcome.STOPPED,
}
LIVE = (PENDING, STARTED, RUNNING, CANCELING)  # statuses of a training that has not ended


def known_status(status: str) -> None:
    if status not in OUTCOMES and status not in LIVE:
        words = [*OUTCOMES, *LIVE]
        raise UsageError(f"unknown status {status!r}.", "", near_name(str(status), words))


def values_of(search: Search, given: Any) -> dict[str, float] | None:
    """The reported numbers by their metrics. Raises UsageError for what is no number."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        pairs = cast("Mapping[str, Any]", given).items()
        return {str(name): number_of(value) for name, value in pairs if value is not None}
    objectives = search.settings.objectives
    if len(objectives) > 1:
        names = ", ".join(f"{one.metric!r}: ..." for one in objectives)
        what = f"metric_value is {given!r}, and the search has {len(objectives)} objectives."
        raise UsageError(what, "", f"Give a mapping: {{{names}}}")
    return {search.settings.goals[0].metric: number_of(given)}


def number_of(value: Any) -> float:
    """A number of any kind, such as numpy's. NaN and infinity are such: the search judges them."""
    if isinstance(value, (bool, str, bytes)) or not isinstance(value, SupportsFloat):
        raise UsageError(f"metric_value is {value!r}; it must be a number.")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def reason_of(status: str, told: str) -> str:
    """Why a training that has not succeeded did not."""
    if OUTCOMES[status] is Outcome.COMPLETE:
        return ""
    return told or f"it was reported as {status}"
