"""The end of a log: searched backwards, in flat memory."""

from __future__ import annotations

import os
from collections.abc import Callable

from tao_sdk.backends.contract import KiB

CHUNK = 256 * KiB


def find_tail(
    size: int, read: Callable[[int, int], bytes], lines: int, chunk_size: int = CHUNK
) -> int:
    """The offset in bytes where the last `lines` lines begin.

    A last line without a newline counts. `read(start, end)` returns bytes; it is called for at
    most `chunk_size` bytes at a time.
    """
    end, newlines = size, lines
    if read(max(size - 1, 0), size) == b"\n":
        newlines += 1
    while newlines and end:
        start = max(0, end - chunk_size)
        chunk = read(start, end)
        count = chunk.count(b"\n")
        if count >= newlines:
            return start + find_nth_last(chunk, newlines) + 1
        newlines, end = newlines - count, start
    return 0 if newlines else size


def find_tail_of_file(fd: int, lines: int) -> int:
    """`find_tail` of an open file."""
    return find_tail(
        os.fstat(fd).st_size, lambda start, end: os.pread(fd, end - start, start), lines
    )


def find_nth_last(block: bytes, number: int) -> int:
    """The index of the newline with `number - 1` newlines after it."""
    at = len(block)
    for _ in range(number):
        at = block.rindex(b"\n", 0, at)
    return at
