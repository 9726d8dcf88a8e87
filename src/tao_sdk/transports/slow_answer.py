"""Slow answers: a caller that waits for another machine says so in the log.

Here: when it is said. Not here: how it is shown (cli/wait_lines.py).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager

from tao_sdk.model.logger_names import WAITS

SLOW_SECONDS = 2.0


def tell_slow(awaited: str, most_seconds: float) -> None:
    """Log the name of the awaited answer, and the longest wait."""
    text = f"Waiting for {awaited}, for at most {most_seconds:g} s."
    logging.getLogger(WAITS).info(text)


@contextmanager
def tell_when_slow(awaited: str, most_seconds: float) -> Generator[None]:
    """Log it if the block takes more than SLOW_SECONDS."""
    timer = threading.Timer(SLOW_SECONDS, tell_slow, [awaited, most_seconds])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
