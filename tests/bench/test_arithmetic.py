"""The bench's own arithmetic: what a table says follows from what was measured, and from nothing
else.
"""

from __future__ import annotations

import pytest
from bench.figure import Figure, count, growth, more_seconds, rate, ratio, size, size_ratio, spread
from bench.goals import MIB, Goal
from bench.rounds import interleaved

from bench import table


def figure(measured: list[float], against: list[float]) -> Figure:
    return ratio("a.key", "a title", "A meaning.", measured, against, "the other")


def test_a_ratio_is_taken_round_by_round_so_that_a_slow_round_counts_for_both() -> None:
    slow_once = figure([1.0, 10.0, 1.0], [2.0, 20.0, 2.0])
    assert (slow_once.result.low, slow_once.result.median, slow_once.result.high) == (0.5, 0.5, 0.5)


def test_a_ratio_of_rounds_that_do_not_belong_together_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        figure([1.0, 2.0], [1.0])


def test_the_spread_holds_the_middle_half_of_the_rounds() -> None:
    found = spread([5.0, 1.0, 2.0, 4.0, 3.0], "seconds")
    assert (found.low, found.median, found.high, found.rounds) == (2.0, 3.0, 4.0, 5)


def test_a_single_round_has_a_spread_too() -> None:
    assert spread([3.0], "seconds").low == spread([3.0], "seconds").high == 3.0


def test_a_rate_is_how_many_fit_into_a_second() -> None:
    assert rate("a.key", "", "", [0.5, 0.25, 0.5], 10).result.median == 20.0


def test_a_growth_is_what_is_more_than_the_baseline() -> None:
    assert growth("a.key", "", "", [50 * MIB], [40 * MIB], "").result.median == 10 * MIB


def test_seconds_more_are_taken_round_by_round() -> None:
    assert more_seconds("a.key", "", "", [1.5, 9.5], [1.0, 9.0], "").result.median == 0.5


def test_questions_are_counted_and_one_is_no_plural() -> None:
    assert table.quantity(count("a.key", "", "", 1, 0.1).result.median, "questions") == "1 question"
    assert table.quantity(2, "questions") == "2 questions"


def test_a_size_ratio_is_ours_over_theirs() -> None:
    assert size_ratio("a.key", "", "", 1_000, 4_000, "").result.median == 0.25


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        (Goal(2), 2.0, True),
        (Goal(2), 2.01, False),
        (Goal(10, at_least=True), 10.0, True),
        (Goal(10, at_least=True), 9.9, False),
    ],
)
def test_a_goal_is_met_at_its_limit_and_missed_beyond_it(
    goal: Goal, value: float, met: bool
) -> None:
    assert goal.met_by(value) is met


def test_a_missed_goal_is_shown_as_missed_and_a_met_one_as_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.figure.GOALS", {"a.key": Goal(2)})
    assert "| 3.00× | ≤ 2.00× | **MISSED** |" in table.row(figure([3.0], [1.0]))
    assert "| 1.50× | ≤ 2.00× | met |" in table.row(figure([1.5], [1.0]))


def test_a_figure_without_a_goal_has_no_verdict() -> None:
    assert figure([3.0], [1.0]).met is None
    assert table.row(figure([3.0], [1.0])).endswith("| 3.00× |  |  |")


def test_the_row_shows_both_sides_and_the_range() -> None:
    row = table.row(figure([0.010, 0.020, 0.030, 0.040, 0.050], [0.010] * 5))
    assert row.startswith(
        "| a title | 30.0 ms (20.0 ms – 40.0 ms) | 10.0 ms the other | 3.00× (2.00× – 4.00×) |"
    )


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1.234, "seconds", "1.23 s"),
        (0.0123, "seconds", "12.3 ms"),
        (0.000123, "seconds", "123 µs"),
        (15_451, "bytes", "15,451 B"),
        (16 * MIB, "bytes", "16.0 MiB"),
        (0.5, "times", "0.50×"),
        (21_966.3, "per second", "21,966/s"),
    ],
)
def test_quantities_have_the_unit_that_fits(value: float, unit: str, shown: str) -> None:
    assert table.quantity(value, unit) == shown  # pyright: ignore[reportArgumentType]


def test_a_size_is_not_given_as_rounded() -> None:
    assert (
        size("entrypoint.bytes", "entrypoint", "", 15_451).to_json()["result"]["median"] == 15_451
    )


def test_contenders_take_turns_after_a_round_that_does_not_count() -> None:
    order: list[str] = []

    def contender(name: str) -> int:
        order.append(name)
        return len(order)

    found = interleaved({name: lambda name=name: contender(name) for name in "abc"}, 3)
    assert "".join(order) == "abc" + "abc" + "bca" + "cab"
    assert found == {"a": [4, 9, 11], "b": [5, 7, 12], "c": [6, 8, 10]}
