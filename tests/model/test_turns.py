"""Turns: each one has its turn, however few have it at a time."""

from __future__ import annotations

from tao_sdk.model.turns import Turns


def test_all_have_their_turn_before_one_has_it_again() -> None:
    turns: Turns[str] = Turns()
    names = ["a", "b", "c", "d", "e"]
    assert [turns.take(names, 2) for _ in range(4)] == [
        ["a", "b"],
        ["c", "d"],
        ["e", "a"],
        ["b", "c"],
    ]


def test_who_comes_later_is_next() -> None:
    turns: Turns[str] = Turns()
    turns.take(["a", "b"], 2)
    assert turns.take(["a", "b", "new"], 1) == ["new"]


def test_what_costs_more_than_there_is_has_its_turn_alone() -> None:
    turns: Turns[str] = Turns()
    cost = {"small": 1, "large": 9}.__getitem__
    assert turns.take(["small", "large"], 4, cost) == ["small"]
    assert turns.take(["small", "large"], 4, cost) == ["large"]
