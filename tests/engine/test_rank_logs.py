from __future__ import annotations

from tao_sdk.engine.rank_logs import LONGEST_HELD, in_whole_lines, with_headers, without_events


def joined(*pieces: tuple[int, bytes]) -> bytes:
    return b"".join(with_headers(pieces))


def test_a_header_stands_where_the_rank_changes_and_always_on_a_line_of_its_own() -> None:
    assert joined((0, b"a\n"), (0, b"b"), (2, b"c\n"), (2, b"d\n"), (0, b"e\n")) == (
        b"a\nb\n==> rank 2 <==\nc\nd\n==> rank 0 <==\ne\n"
    )
    assert joined((1, b"a")) == b"==> rank 1 <==\na"
    assert joined() == b""


def test_a_rank_whose_pod_is_known_has_a_header_that_names_it_rank_0_too() -> None:
    pieces = [(0, b"a\n"), (0, b"b\n"), (1, b"c\n")]
    assert b"".join(with_headers(pieces, {0: "pod-0, node", 1: "pod-1, node"})) == (
        b"==> rank 0 (pod-0, node) <==\na\nb\n==> rank 1 (pod-1, node) <==\nc\n"
    )
    assert b"".join(with_headers(pieces, {})).startswith(b"==> rank 0 <==\na\n")


def test_a_line_that_is_written_in_pieces_is_not_broken_by_another_ranks() -> None:
    pieces = [(0, b"one "), (1, b"other\nhalf"), (0, b"line\nrest")]
    assert list(in_whole_lines(pieces)) == [
        (1, b"other\n"),
        (0, b"one line\n"),
        (0, b"rest"),
        (1, b"half"),
    ]


def test_a_line_that_never_ends_is_passed_on_as_it_comes() -> None:
    endless = b"x" * (LONGEST_HELD + 1)
    assert list(in_whole_lines([(0, endless), (0, b"y\n")])) == [(0, endless), (0, b"y\n")]


def test_events_of_two_ranks_that_come_in_pieces_are_both_left_out() -> None:
    event = b'@tao {"event": "stage", "time": 1.0, "stage": "command"}\n'
    pieces = [
        (0, b"a\n" + event[:20]),
        (1, event[:30]),
        (0, event[20:] + b"b\n"),
        (1, event[30:] + b"c\n"),
    ]
    assert b"".join(data for rank, data in without_events(pieces) if rank == 0) == b"a\nb\n"
    assert b"".join(data for rank, data in without_events(pieces) if rank == 1) == b"c\n"
