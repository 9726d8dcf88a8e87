"""Rank logs: the logs of several ranks as one stream, the way `tail` shows several files.

Here: how their pieces are joined. Not here: where they come from (logs.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tao_sdk.backends.contract import KiB
from tao_sdk.runner.events import EventFilter

LONGEST_HELD = 64 * KiB  # of an unfinished line; a longer one is passed on as it comes

Pieces = Iterable[tuple[int, bytes]]  # (rank, some bytes of its log)


def with_headers(pieces: Pieces, sources: Mapping[int, str] | None = None) -> Iterator[bytes]:
    """Yield all bytes, with a header line wherever the rank or its source changes.

    `sources` names the source of each rank's log, as far as it is known when the header is due. If
    it is None, the backend names no sources, and rank 0 begins without a header.
    """
    last, last_source, open_line = 0 if sources is None else None, "", False
    for rank, data in pieces:
        source = (sources or {}).get(rank, "")
        if rank != last or source != last_source:
            yield b"\n" * open_line + header(rank, source)
        yield data
        last, last_source, open_line = rank, source, not data.endswith(b"\n")


def header(rank: int, source: str) -> bytes:
    """`==> rank 1 <==`; with a source, `==> rank 1 (pod, node) <==`."""
    words = f"rank {rank} ({source})" if source else f"rank {rank}"
    return f"==> {words} <==\n".encode()


def without_events(pieces: Pieces) -> Iterator[tuple[int, bytes]]:
    """Yield each rank's own output, without the runner's events."""
    filters: dict[int, EventFilter] = {}
    for rank, data in pieces:
        user, _ = filters.setdefault(rank, EventFilter()).feed(data)
        if user:
            yield rank, user
    yield from _rests({rank: each.close() for rank, each in filters.items()})


def in_whole_lines(pieces: Pieces) -> Iterator[tuple[int, bytes]]:
    """Yield the same bytes in whole lines: an unfinished line waits for its rest, so that no other
    rank's output splits it. A line longer than LONGEST_HELD does not wait.
    """
    held: dict[int, bytes] = {}
    for rank, piece in pieces:
        data = held.get(rank, b"") + piece
        end = len(data) if len(data) > LONGEST_HELD and b"\n" not in data else data.rfind(b"\n") + 1
        held[rank] = data[end:]
        if end:
            yield rank, data[:end]
    yield from _rests(held)


def _rests(of_ranks: dict[int, bytes]) -> Iterator[tuple[int, bytes]]:
    return ((rank, data) for rank, data in sorted(of_ranks.items()) if data)
