"""The body of a chunked HTTP answer in large blocks, whatever the sizes in which the server wrote
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

BLOCK = 256 * 1024


class Reader(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class Chunks:
    """Iterates over blocks of the body. Raises ConnectionError when the server goes away before it
    has said the end.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.ended_cleanly = False  # True: nothing of the answer is left on its connection

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        while block := self.reader.read1(BLOCK):
            data = rest + block
            parts, at, over = whole_chunks(data)
            rest = data[at:]
            if parts:
                yield b"".join(parts)
            if over:
                self.ended_cleanly = rest == b"\r\n"
                return
        raise ConnectionError("the answer ended in the middle")


def whole_chunks(data: bytes) -> tuple[list[bytes], int, bool]:
    """(the chunks that are whole, where the rest begins, whether the last one was among them)."""
    parts: list[bytes] = []
    at = 0
    while (line := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line], 16)
        if not size:
            return parts, line + 2, True
        end = line + 2 + size
        if len(data) < end + 2:
            break
        parts.append(data[line + 2 : end])
        at = end + 2
    return parts, at, False
