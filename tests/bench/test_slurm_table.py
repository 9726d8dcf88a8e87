"""The table of the SLURM bench: a row for each call, on whichever line, by whichever client."""

from __future__ import annotations

from bench.slurm import MILLISECONDS, TITLES, Row, table


def test_a_row_says_who_did_what_over_which_line_and_what_it_took() -> None:
    shown = table([Row("this SDK", TITLES["submit"], 50, 0, 1, 0.2345, "")])
    head, _, row = shown.splitlines()
    assert [cell.strip() for cell in head.strip("|").split("|")] == [
        "what", "line, there and back", "client", "connections", "round trips", "time", "answer"
    ]  # fmt: skip
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "submit",
        "50 ms",
        "this SDK",
        "0",
        "1",
        "0.234 s",
        "",
    ]


def test_it_is_measured_near_and_far() -> None:
    assert sorted(MILLISECONDS.values()) == [0, 50]
