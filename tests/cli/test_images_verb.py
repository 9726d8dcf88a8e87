"""`tao images`: one key alone, and a key that is not there."""

from __future__ import annotations

from collections.abc import Callable

from support.tao_command import Ran

Typed = Callable[..., Ran]


def test_one_image_key_is_shown_alone(typed: Typed) -> None:
    every = typed("images", "--json").json["images"]
    key = next(iter(every))
    assert typed("images", key).out == f"{every[key]}\n"
    assert typed("images", "--json", key).json["images"] == {key: every[key]}


def test_a_group_of_keys_is_shown_with_all_below_it(typed: Typed) -> None:
    every = typed("images", "--json").json["images"]
    group = next(iter(every)).partition(".")[0]
    below = {key for key in every if key.startswith(f"{group}.")}
    assert set(typed("images", "--json", group).json["images"]) == below


def test_an_image_key_that_is_not_there_names_a_near_one(typed: Typed) -> None:
    key = next(iter(typed("images", "--json").json["images"]))
    ran = typed("images", f"{key}x")
    assert (ran.code, ran.out) == (2, "")
    assert f"Did you mean {key}?" in ran.err
