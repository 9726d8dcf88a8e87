"""Warnings of the SDK's own logger, as the command prints them: a line each, never a traceback."""

from __future__ import annotations

import logging
import sys

from tao_sdk.cli.output import stderr_line
from tao_sdk.model.errors import join_sentences


class WarningLines(logging.Handler):
    """Prints a line on stderr if lines are wanted. The traceback of an unexpected error goes into a
    private file either way.
    """

    def __init__(self, printed: bool) -> None:
        super().__init__(logging.WARNING)
        self.printed = printed

    def emit(self, record: logging.LogRecord) -> None:
        where_kept = keep_traceback(record)
        if self.printed:
            stderr_line(join_sentences(f"warning: {record.getMessage()}", where_kept))


def keep_traceback(record: logging.LogRecord) -> str:
    """Write the error's traceback into a private file. Return the message about it; "" without an
    error.
    """
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    from tao_sdk.cli.failure import bug

    return bug(record.exc_info[1], sys.argv[1:]).next


def tell_warnings(printed: bool) -> None:
    logger = logging.getLogger("tao_sdk")
    logger.handlers = [WarningLines(printed)]
    logger.propagate = False
