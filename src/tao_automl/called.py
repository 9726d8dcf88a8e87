"""Called: the functions of a caller, whatever they do. What one raises is data, with its traceback.

Here: one call, and what came of it as numbers or plain JSON. Not here: when each is called.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, SupportsFloat, cast

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Raised:
    """What a function raised, of which trial, and where."""

    function: str
    trial: int | None
    error: str
    traceback: str

    def to_json(self) -> dict[str, Any]:
        return {
            "function": self.function,
            "rec_id": self.trial,
            "error": self.error,
            "traceback": self.traceback,
        }


@dataclass
class Caller:
    """Calls a caller's functions, and keeps what they raised."""

    raised: list[Raised] = field(default_factory=list[Raised])

    def call(
        self, name: str, trial: int | None, function: Callable[..., Any] | None, *given: Any
    ) -> Any:
        """What the function returns; None where there is none, or where it raised."""
        if function is None:
            return None
        try:
            return function(*given)
        except Exception as error:  # noqa: BLE001  a caller's function may raise anything
            words = f"{type(error).__name__}: {error}"
            self.raised.append(Raised(name, trial, words, traceback.format_exc()))
            logger.warning("%s raised for recommendation %s: %s", name, trial, words)
            return None

    def last_error(self, name: str) -> str:
        """What the function raised last; "" where it did not."""
        return next((one.error for one in reversed(self.raised) if one.function == name), "")


def numbers_of(value: Any, metric: str) -> dict[str, float] | None:
    """What a function gave for a metric: a number, or a mapping with several. None where it is no
    number.
    """
    if isinstance(value, Mapping):
        return mapped_numbers(cast("Mapping[str, Any]", value), metric)
    number = number_of(value)
    return None if number is None else {metric: float(number)}


def mapped_numbers(given: Mapping[str, Any], metric: str) -> dict[str, float] | None:
    """The numbers of a mapping; its `metric_value` is that of the metric."""
    found = {
        str(name): float(number)
        for name, one in given.items()
        if (number := number_of(one)) is not None
    }
    if "metric_value" in found:
        found.setdefault(metric, found.pop("metric_value"))
    return found or None


def number_of(value: Any) -> SupportsFloat | None:
    """The value, where it is a number of any kind."""
    if isinstance(value, (bool, str, bytes)) or not isinstance(value, SupportsFloat):
        return None
    return value


def plain_json(value: Any) -> Any:
    """The value as plain JSON; what JSON does not know is told as a text."""
    return None if value is None else json.loads(json.dumps(value, default=str))
