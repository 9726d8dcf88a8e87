from __future__ import annotations

from tao_sdk.cli.line_budget import LINES_A_SECOND, MOST_AT_ONCE, LineBudget


def test_a_table_is_shown_whole_and_a_flood_is_cut_to_its_last_lines() -> None:
    budget = LineBudget()
    table = [f"row {number}" for number in range(MOST_AT_ONCE)]
    assert budget.newest_lines(table, 0.0) == table
    assert budget.newest_lines(["a", "b", "c"], 1 / LINES_A_SECOND) == ["c"]


def test_a_flood_of_an_hour_shows_few_lines() -> None:
    budget, shown = LineBudget(), 0
    for tenth in range(36_000):
        shown += len(budget.newest_lines(["noise"] * 1000, tenth / 10))
    assert shown <= MOST_AT_ONCE + 3600 * LINES_A_SECOND + 1
