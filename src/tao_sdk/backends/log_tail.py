"""The end of a log that lies in a file here: found backwards, in flat memory."""

from __future__ import annotations

import os

from tao_sdk.backends.contract import KiB

CHUNK = 256 * KiB


def find_tail(fd: int, lines: int) -> int:
    """Where the last `lines` lines begin, reading backwards. A last line without its newline
    counts.
    """
    end = os.fstat(fd).st_size
    wanted = lines + (end > 0 and os.pread(fd, 1, end - 1) == b"\n")
    while wanted and end:
        start = max(0, end - CHUNK)
        block = os.pread(fd, end - start, start)
        found = block.count(b"\n")
        if found >= wanted:
            return start + find_nth_last(block, wanted) + 1
        wanted, end = wanted - found, start
    return 0 if wanted else os.fstat(fd).st_size


def find_nth_last(block: bytes, number: int) -> int:
    """The index of the newline with `number - 1` newlines after it."""
    at = len(block)
    for _ in range(number):
        at = block.rindex(b"\n", 0, at)
    return at
