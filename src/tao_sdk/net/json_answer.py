"""Answers in JSON, as hubs give them: never trusted to be what they should be."""

from __future__ import annotations

import json
from typing import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tao_sdk.net.failure import Failure
    from tao_sdk.net.web import Answer

LARGEST_JSON = 16 << 20  # bytes; of nested lists it takes twenty times that in memory


def parse_json(answer: Answer, failure: Callable[[str], Failure]) -> Any:
    """The JSON of an answer. Raises `failure(why)` where it is no JSON, or far too much."""
    if len(answer.body) > LARGEST_JSON:
        raise failure(f"The answer has more than {LARGEST_JSON} bytes.")
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise failure("The answer is no JSON.") from None


def as_record(value: Any) -> dict[str, Any]:
    """An object of JSON; an empty one in the place of anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_records(value: Any) -> list[dict[str, Any]] | None:
    """A list of objects; None in the place of anything else."""
    if not isinstance(value, list) or not all(
        isinstance(each, dict) for each in cast("list[Any]", value)
    ):
        return None
    return cast("list[dict[str, Any]]", value)
