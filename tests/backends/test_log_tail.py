"""The end of a log, found backwards in pieces of any size."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tao_sdk.backends.log_tail import find_tail, find_tail_of_file

LINES = [b"one\n", b"two words\n", b"\n", b"four\n", b"five"]


@pytest.mark.parametrize("lines", range(7))
@pytest.mark.parametrize("ending", [b"", b"\n"])
@pytest.mark.parametrize("chunk_size", [1, 3, 100])
def test_a_tail_is_the_last_lines(lines: int, ending: bytes, chunk_size: int) -> None:
    log = b"".join(LINES) + ending
    offset = find_tail(len(log), lambda start, end: log[start:end], lines, chunk_size)
    assert log[offset:] == (b"".join(LINES[-lines:]) + ending if lines else b"")


def test_the_tail_of_an_empty_log_begins_at_its_start() -> None:
    assert find_tail(0, lambda start, end: b"", 5) == 0


def test_the_tail_of_a_file_is_found_without_moving_in_it(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntwo\n")
    fd = os.open(tmp_path / "log", os.O_RDONLY)
    try:
        assert (find_tail_of_file(fd, 1), os.lseek(fd, 0, os.SEEK_CUR)) == (4, 0)
    finally:
        os.close(fd)
