"""Wait for a condition. The time limit only ends a test that has failed, so it is a long one: a
busy machine takes many times longer than a quiet one.

A condition may start a program or ask a server. The longer it was not met, the longer is the pause
before it is asked again, so that waiting takes no processor from what is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

LIMIT_SECONDS = 300.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 0.25
PAUSE_SHARE = 0.1  # of the time waited until now


def pause(waited: float) -> float:
    """Seconds until a condition is asked again that was not met for `waited` seconds."""
    return min(max(FIRST_PAUSE_SECONDS, PAUSE_SHARE * waited), LONGEST_PAUSE_SECONDS)


def until(
    condition: Callable[[], Any],
    seconds: float = LIMIT_SECONDS,
    words: Callable[[], str] = str,
) -> Any:
    """The first true answer of `condition`. `words` says what there was instead."""
    began = time.monotonic()
    while not (answer := condition()):
        waited = time.monotonic() - began
        assert waited < seconds, f"not in {seconds} s: {words()}"
        time.sleep(pause(waited))
    return answer
