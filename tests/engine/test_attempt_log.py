"""The last lines of a log whose start only our copy still has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tao_sdk.backends.contract import LogChunk
from tao_sdk.engine.attempt_log import CopiedPart


@given(
    st.lists(st.sampled_from([b"a\n", b"bcd\n", b"\n", b"open"]), max_size=12),
    st.integers(0, 60),
    st.integers(1, 14),
)
def test_a_tail_over_the_copy_and_what_is_newer_is_the_end_of_both(
    pieces: list[bytes], size: int, lines: int
) -> None:
    whole = b"".join(pieces)
    copy, newer = whole[:size], whole[size:]
    part = CopiedPart(len(copy), "5", lambda offset, limit: copy[offset : offset + min(limit, 3)])
    chunks = [LogChunk(bytes([byte]), str(at)) for at, byte in enumerate(newer, 6)]
    tail = list(part.join_tail(chunks, lines))
    expected = b"".join(whole.splitlines(keepends=True)[-lines:])
    assert b"".join(chunk.data for chunk in tail) == expected
    assert {chunk.cursor for chunk in tail} <= {str(5 + len(newer))}
