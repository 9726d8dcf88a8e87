"""Rounds with rivals that fail or are slow: a figure loses the rival, and a run loses nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

import pytest
from bench.race import race
from bench.rivals import Rivals
from bench.rounds import ContenderFailed, interleaved, output_of


def takes(*seconds: float) -> Callable[[], float]:
    """A contender of these rounds, the last one again and again."""
    rounds: Iterator[float] = iter(seconds)
    last = seconds[-1]
    return lambda: next(rounds, last)


def fails_in_round(number: int) -> Callable[[], float]:
    rounds = iter(range(number))

    def run() -> float:
        if next(rounds, None) is None:
            raise ContenderFailed("it had not ended after 120 s")
        return 1.0

    return run


def test_a_rival_that_fails_is_left_out_of_that_figure_and_told() -> None:
    rivals = Rivals()
    contenders = {"ours": takes(2.0), "hangs": fails_in_round(3), "slower": takes(4.0)}
    found = interleaved(contenders, 5, rivals.leave_out_of("a title"))
    assert found == {"ours": [2.0] * 5, "slower": [4.0] * 5}
    assert rivals.failed == ["hangs in “a title”: it had not ended after 120 s"]


def test_a_failure_of_ours_is_no_rivals_and_ends_the_group() -> None:
    with pytest.raises(ContenderFailed):
        interleaved({"ours": fails_in_round(1)}, 5, Rivals().leave_out_of("a title"))
    with pytest.raises(ContenderFailed):
        interleaved({"anyone": fails_in_round(1)}, 5)


def test_a_race_is_against_the_best_of_those_that_went_through_all_rounds() -> None:
    contenders = {"ours": takes(9.0, 2.0), "fails": fails_in_round(2), "whole": takes(1.2)}
    found = race(contenders, 3, Rivals().leave_out_of("a title"))
    assert found is not None
    assert (found.ours, found.best, found.theirs) == ([2.0] * 3, "whole", [1.2] * 3)


def test_without_a_rival_that_goes_through_all_rounds_there_is_no_race() -> None:
    assert race({"ours": takes(1.0), "fails": fails_in_round(2)}, 3, lambda *_: None) is None
    assert race({"ours": takes(1.0)}, 3, lambda *_: None) is None


def test_a_rival_far_behind_the_fastest_runs_two_rounds_and_ours_runs_all() -> None:
    order: list[str] = []

    def contender(name: str, *seconds: float) -> Callable[[], float]:
        run = takes(*seconds)
        return lambda: (order.append(name), run())[1]

    contenders = {
        "ours": contender("ours", 9.0),
        "fast": contender("fast", 1.0),
        "slow": contender("slow", 1.6),
        "cold": contender("cold", 5.0, 1.1),  # its first round filled a cache
    }
    found = race(contenders, 4, lambda *_: None)
    assert found is not None
    assert found.best == "fast"
    assert {name: order.count(name) for name in contenders} == {
        "ours": 5,
        "fast": 5,
        "slow": 2,
        "cold": 5,
    }


@pytest.mark.slow
def test_a_program_that_does_not_end_is_killed_with_its_children() -> None:
    starts_one = "import subprocess; subprocess.run(['sleep', '60'])"
    begun = time.monotonic()
    with pytest.raises(ContenderFailed, match="had not ended after 1 s"):
        output_of([sys.executable, "-c", starts_one], {}, seconds=1)
    assert time.monotonic() - begun < 60  # else somebody still held the pipe


def test_a_program_that_fails_says_what_it_complained_of() -> None:
    with pytest.raises(ContenderFailed, match="ended with 1: no such bucket"):
        output_of([sys.executable, "-c", "raise SystemExit('no such bucket')"], {})
