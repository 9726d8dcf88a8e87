"""JSON answers of hubs, checked: they may not be what they should be."""

from __future__ import annotations

import json
from typing import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tao_sdk.net.failure import Failure
    from tao_sdk.net.web import Answer

LARGEST_JSON = 16 << 20  # bytes; nested lists take twenty times that in memory


def parse_json(answer: Answer, failure: Callable[[str], Failure]) -> Any:
    """Parse an answer as JSON. Raises `failure(why)` if it is not JSON, or is too large."""
    if len(answer.body) > LARGEST_JSON:
        raise failure(f"The answer has more than {LARGEST_JSON} bytes.")
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise failure("The answer is no JSON.") from None


def as_record(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty dict."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_records(value: Any) -> list[dict[str, Any]] | None:
    """The value if it is a list of JSON objects, else None."""
    if not isinstance(value, list) or not all(
        isinstance(each, dict) for each in cast("list[Any]", value)
    ):
        return None
    return cast("list[dict[str, Any]]", value)
