"""Wait for a condition. The time limit only ends a test that has failed, so it is a long one: a
busy machine takes many times longer than a quiet one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

LIMIT_SECONDS = 300.0


def until(
    condition: Callable[[], Any],
    seconds: float = LIMIT_SECONDS,
    words: Callable[[], str] = str,
) -> Any:
    """The first true answer of `condition`. `words` says what there was instead."""
    latest = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < latest, f"not in {seconds} s: {words()}"
        time.sleep(0.02)
    return answer
