"""The body of a chunked HTTP answer in large blocks, whatever the size of the server's chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

BLOCK = 256 * 1024


class Reader(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class Chunks:
    """Iterates over blocks of the body. Raises ConnectionError if the server goes away before the
    last chunk.
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
    """The whole chunks, the start of the rest, and true if the last chunk was among them."""
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
