"""Warnings of the SDK's own logger, as the command tells them: a line each, never a traceback."""

from __future__ import annotations

import logging
import sys

from tao_sdk.cli.failure import bug
from tao_sdk.cli.output import stderr_line
from tao_sdk.model.errors import join_sentences


class WarningLines(logging.Handler):
    """A line on stderr where lines are wanted. The traceback of an unexpected error goes into a
    private file either way.
    """

    def __init__(self, printed: bool) -> None:
        super().__init__(logging.WARNING)
        self.printed = printed

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        kept = bug(error, sys.argv[1:]).next if error is not None else ""
        if self.printed:
            stderr_line(join_sentences(f"warning: {record.getMessage()}", kept))


def tell_warnings(printed: bool) -> None:
    logger = logging.getLogger("tao_sdk")
    logger.handlers = [WarningLines(printed)]
    logger.propagate = False
