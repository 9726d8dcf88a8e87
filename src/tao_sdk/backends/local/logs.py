"""Logs: read a job's log from a cursor or its last lines, and follow it until the job has ended.

A long log takes no more memory than a short one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tao_sdk.backends.contract import KiB, LogChunk, LogRequest
from tao_sdk.backends.log_tail import find_tail_of_file
from tao_sdk.model.errors import PathNotFound, UsageError

CHUNK = 256 * KiB
CUT = (
    b"\ntao: the disk that keeps this log was full while the job ran: what it "
    b"printed then is missing above.\n"
)
QUICK, SLOW = 0.05, 0.2  # seconds between reads while following: QUICK after new bytes


def read(
    path: Path,
    request: LogRequest,
    has_ended: Callable[[], bool],
    last_words: Callable[[], bytes] = bytes,
) -> Iterator[LogChunk]:
    """Yield the requested bytes. A cursor is an offset, so that a reader can resume there.

    `last_words`: our own note on the log of a job that has ended. It comes after the log's end.
    Raises UsageError for a rank other than 0, PathNotFound if the log is gone.
    """
    if request.rank:
        raise UsageError(
            f"There is no rank {request.rank}.",
            "A local job has one process group, rank 0.",
            "Leave the rank out.",
        )
    with open_log(path) as file:
        offset, pause = first_offset(file.fileno(), request), QUICK
        while True:
            # Ask before reading: after the end, one more read returns the whole rest.
            is_last = not request.follow or has_ended()
            pause = min(pause * 1.5, SLOW)
            while data := os.pread(file.fileno(), CHUNK, offset):
                offset += len(data)
                pause = QUICK
                yield LogChunk(data, str(offset))
            if is_last:
                break
            time.sleep(pause)
        words = last_words()
        if words and offset <= os.fstat(file.fileno()).st_size:
            yield LogChunk(words, str(offset + len(words)))


def open_log(path: Path):
    try:
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        raise PathNotFound(
            f"The log is gone: {path}", "The job's folder was removed.", "Submit the job again."
        ) from None


def first_offset(fd: int, request: LogRequest) -> int:
    """The offset to begin at: the cursor, else the last lines, else the start."""
    if request.cursor:
        return int(request.cursor)
    if request.tail is not None:
        return find_tail_of_file(fd, request.tail)
    return 0
