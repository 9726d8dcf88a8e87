"""Waits for other machines, as the command prints them: a line each on stderr, and no line
twice.
"""

from __future__ import annotations

import logging

from tao_sdk.cli.output import stderr_line
from tao_sdk.model.logger_names import WAITS


class WaitLines(logging.Handler):
    """Prints a line on stderr for each wait with a new text."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text not in self.told:
            self.told.add(text)
            stderr_line(text)


def tell_waits() -> None:
    """Print all waits from now on."""
    logger = logging.getLogger(WAITS)
    logger.setLevel(logging.INFO)
    logger.handlers = [WaitLines()]
    logger.propagate = False
