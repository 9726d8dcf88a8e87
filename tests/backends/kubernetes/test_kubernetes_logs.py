"""A log that is read in pieces, each from where the last one ended."""

from __future__ import annotations

import tempfile
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tao_sdk.backends.contract import LogRequest
from tao_sdk.backends.kubernetes.pods import logs
from tao_sdk.backends.kubernetes.pods.kept_log import BROKEN, KeptLogs, last_position, part_of
from tao_sdk.backends.kubernetes.pods.logs import Lines, Position

Line = tuple[int, bytes]


def stamped(second: int, text: bytes) -> bytes:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}.5Z ".encode() + text + b"\n"


def lines_at(steps: list[Line]) -> list[Line]:
    """The lines with their seconds, of steps from each to the next."""
    seconds = accumulate(step for step, _ in steps)
    texts = (text.replace(b"\n", b" ") for _, text in steps)
    return list(zip(seconds, texts, strict=True))


def served(lines: list[Line], since: str) -> bytes:
    """What the API answers: the lines of that second or later."""
    whole = [stamped(second, text) for second, text in lines]
    return b"".join(line for line in whole if line[: len(since)] >= since.encode())


@given(
    st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=60)), max_size=30),
    st.lists(st.integers(1, 400), min_size=1, max_size=20),
    st.integers(1, 50),
)
def test_a_log_that_breaks_off_anywhere_comes_whole_and_once(
    steps: list[Line], cuts: list[int], block: int
) -> None:
    lines = lines_at(steps)
    cursor, read = "", b""
    for cut in (*cuts, 10**9):
        position = Position.parse(cursor)
        reader = Lines(position)
        answer = served(lines, position.since)[:cut]
        for start in range(0, len(answer), block):
            if new := reader.feed(answer[start : start + block]):
                read, cursor = read + new, position.cursor
    assert read == b"".join(text + b"\n" for _, text in lines)


@given(st.lists(st.tuples(st.integers(-2, 3), st.binary(max_size=9)), min_size=2, max_size=40))
def test_lines_that_come_together_are_counted_as_one_by_one(steps: list[Line]) -> None:
    """Late lines, too."""
    second, lines = 10, list[bytes]()
    for step, text in steps:
        second = max(second + step, 0)
        lines.append(stamped(second, text.replace(b"\n", b" ")))
    together, single = Position(), Position()
    reader, one_by_one = Lines(together), Lines(single)
    text = reader.feed(lines[0]) + reader.feed(b"".join(lines[1:]))
    assert text == b"".join(map(one_by_one.feed, lines))
    assert together == single


def test_a_line_without_an_end_is_passed_on_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LONGEST_HELD", 100)
    whole = stamped(0, b"x" * 1000)
    position = Position()
    first = Lines(position).feed(whole[:500])
    assert len(first) > 300
    again = Position.parse(position.cursor)
    assert first + Lines(again).feed(whole) == b"x" * 1000 + b"\n"


def test_a_cursor_of_another_kind_means_the_start() -> None:
    assert Position.parse("12345").since == ""
    assert Position.parse("x=1 y").since == ""


def test_a_kept_copy_goes_on_at_the_cursor_of_the_clusters_log(tmp_path: Path) -> None:
    lines = [(second, f"line {second}".encode()) for second in range(10)]
    position = Position()
    first = Lines(position).feed(served(lines[:4], ""))
    kept = KeptLogs(tmp_path)
    kept.path("uid", 0).write_bytes(served(lines, ""))
    rest = kept.read("uid", 0, LogRequest(cursor=position.cursor))
    read = first + b"".join(chunk.data for chunk in rest)
    assert read == b"".join(text + b"\n" for _, text in lines)


def test_the_tail_of_a_kept_copy_is_its_last_lines(tmp_path: Path) -> None:
    kept = KeptLogs(tmp_path)
    kept.path("uid", 0).write_bytes(served([(s, b"%d" % s) for s in range(5)], ""))
    tail = kept.read("uid", 0, LogRequest(tail=2))
    assert b"".join(chunk.data for chunk in tail) == b"3\n4\n"


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=60)), max_size=30),
    st.lists(st.integers(1, 400), max_size=10),
    st.booleans(),
)
def test_a_copy_that_breaks_off_anywhere_goes_on_there_and_is_whole(
    steps: list[Line], cuts: list[int], client_dies: bool
) -> None:
    lines = lines_at(steps)
    with tempfile.TemporaryDirectory() as folder:
        kept = KeptLogs(Path(folder))
        with part_of(kept.path("uid", 0)).open("a+b") as file:
            position = Position()
            for cut in (*cuts, 10**9):
                reader = Lines(position, stamped=True)
                file.write(reader.feed(served(lines, position.since)[:cut]) + reader.close())
                file.flush()
                position = last_position(file) if client_dies else position
        read = b"".join(chunk.data for chunk in kept.read("uid", 0, LogRequest()))
    assert read == b"".join(text + b"\n" for _, text in lines)


def test_a_copy_that_nobody_finished_says_once_that_lines_may_be_missing(tmp_path: Path) -> None:
    kept = KeptLogs(tmp_path)
    part_of(kept.path("uid", 0)).write_bytes(
        served([(1, b"a"), (1, b"b")], "") + stamped(2, b"c")[:-1]
    )
    assert kept.finish("uid", 0)
    first, *rest = kept.read("uid", 0, LogRequest())
    again = kept.read("uid", 0, LogRequest(cursor=first.cursor))
    for chunks in (rest, again):
        assert b"".join(chunk.data for chunk in chunks) == b"b\nc\n" + BROKEN
    assert kept.finish("uid", 0)
    assert list(kept.read("uid", 0, LogRequest(cursor=rest[-1].cursor))) == []


def test_lines_that_are_missing_in_a_copy_are_told_where_they_are_missing(tmp_path: Path) -> None:
    kept, position = KeptLogs(tmp_path), Position()
    copied = b""
    for second in (1, 5):  # the log was rotated between the two
        copied += Lines(position, stamped=True).feed(stamped(second, b"%d" % second))
    kept.path("uid", 0).write_bytes(copied)
    chunks = list(kept.read("uid", 0, LogRequest()))
    assert [chunk.data for chunk in chunks] == [b"1\n", logs.ROTATED + b"5\n"]
    for read, chunk in enumerate(chunks, 1):
        assert list(kept.read("uid", 0, LogRequest(cursor=chunk.cursor))) == chunks[read:]


# Rotation: the API serves the newest file of a log alone


def exact(second: int, nanoseconds: int, text: bytes, zone: str = "Z") -> bytes:
    time = f"2026-01-01T00:00:{second:02}.{nanoseconds:09}{zone}"
    return time.encode() + b" " + text + b"\n"


def rotated(lines: list[bytes], begins: int, since: str) -> bytes:
    """What the API answers once the lines before `begins` are in an older file."""
    return b"".join(line for line in lines[begins:] if line[: len(since)] >= since.encode())


@given(
    st.lists(st.integers(0, 2), min_size=2, max_size=40),
    st.integers(1, 40),
    st.integers(0, 40),
    st.integers(1, 80),
)
def test_of_a_rotated_log_no_line_is_lost_that_is_there_and_what_may_be_missing_is_told(
    steps: list[int], read: int, begins: int, block: int
) -> None:
    second, lines = 0, list[bytes]()
    for number, step in enumerate(steps):
        second = min(second + step, 59)
        lines.append(exact(second, number, b"%d" % number))
    read, begins = min(read, len(lines)), min(begins, len(lines))
    position = Position()
    Lines(position).feed(b"".join(lines[:read]))
    again = Position.parse(position.cursor)
    answer = rotated(lines, begins, again.since)
    reader = Lines(again)
    pieces = [answer[start : start + block] for start in range(0, len(answer), block)]
    new = b"".join(map(reader.feed, pieces))
    expected = b"".join(b"%d\n" % number for number in range(max(read, begins), len(lines)))
    may_miss = begins >= read and bool(expected)
    assert new == (logs.ROTATED if may_miss else b"") + expected


def test_the_rest_of_a_line_goes_on_or_is_told_as_gone_with_its_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "LONGEST_HELD", 60)
    long_line, next_line = exact(0, 1, b"x" * 100), exact(0, 2, b"after")
    position = Position()
    begun = Lines(position).feed(long_line[:90])
    same, gone = Position.parse(position.cursor), Position.parse(position.cursor)
    assert begun + Lines(same).feed(long_line + next_line) == b"x" * 100 + b"\nafter\n"
    assert Lines(gone).feed(next_line) == b"\n" + logs.ROTATED + b"after\n"


def test_a_log_is_asked_for_in_the_time_zone_of_its_node() -> None:
    position = Position()
    Lines(position).feed(exact(7, 5, b"a", zone="+02:00"))
    assert Position.parse(position.cursor).since_time == "2026-01-01T00:00:07+02:00"


def test_a_cursor_of_an_earlier_version_is_still_understood() -> None:
    position = Position.parse("2026-01-01T00:00:03=2 0")
    assert (position.since, position.lines, position.first) == ("2026-01-01T00:00:03", 2, "")
