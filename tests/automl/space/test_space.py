"""Spaces: no value leaves that is not allowed, and the way to the unit cube and back."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tao_automl.space.mistake import SpaceError
from tao_automl.space.parameter import (
    Choice,
    Limit,
    Optional,
    Parameter,
    Range,
    Several,
    Subset,
)
from tao_automl.space.search_block import read_parameters
from tao_automl.space.space import Space, make_space, space_from_json

finite = st.floats(-1e6, 1e6, allow_nan=False)
unit = st.floats(0, 1)


@st.composite
def ranges(draw: st.DrawFn, key: str = "x") -> Range:
    if draw(st.booleans()):
        low = draw(st.integers(-1000, 1000))
        step = draw(st.integers(1, 7))
        high = low + step * draw(st.integers(1, 50))
        is_log = low > 0 and draw(st.booleans())
        return Range(key, low, high, True, is_log, step)
    if draw(st.booleans()):
        low, decades = 10 ** draw(st.floats(-9, 3)), draw(st.floats(0.1, 6))
        return Range(key, low, low * 10**decades, is_log=True)
    low, size = draw(finite), draw(st.floats(1e-3, 1e6))
    return Range(key, low, low + size)


@st.composite
def parameters(draw: st.DrawFn, key: str = "x") -> Parameter:
    kind = draw(st.sampled_from(["range", "choice", "several", "subset", "optional"]))
    if kind == "range":
        return draw(ranges(key))
    if kind == "several":
        return Several(key, tuple(draw(ranges(key)) for _ in range(draw(st.integers(1, 3)))))
    if kind == "optional":
        return Optional(key, Several(key, (draw(ranges(key)), draw(ranges(key)))))
    options = tuple(draw(st.lists(st.text(max_size=3), min_size=2, max_size=5, unique=True)))
    if kind == "subset":
        return Subset(key, options)
    weights = draw(st.lists(st.floats(0.01, 5), min_size=len(options), max_size=len(options)))
    return Choice(key, options, tuple(weights), draw(st.booleans()))


@st.composite
def spaces_with_points(draw: st.DrawFn) -> tuple[Space, list[float]]:
    space = make_space([draw(parameters(key)) for key in ("a", "b", "c")])
    return space, draw(st.lists(unit, min_size=space.width, max_size=space.width))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(spaces_with_points())
def test_what_is_drawn_is_allowed_and_its_point_leads_back_to_it(
    found: tuple[Space, list[float]],
) -> None:
    space, point = found
    values = space.decode(point)
    assert space.check(values) == values
    back = space.encode(values)
    assert back is not None
    assert all(0 <= coordinate <= 1 for coordinate in back)
    assert_alike(space.decode(back), values)
    assert json.loads(json.dumps(values)) == values


def assert_alike(first: Any, second: Any) -> None:
    """Equal, but for the last of the digits that a drawn number has."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        first, second = list(first.values()), list(second.values())
    if isinstance(first, list):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_alike(one, other)
    elif isinstance(first, float):
        assert math.isclose(first, second, rel_tol=1e-4, abs_tol=1e-2)
    else:
        assert first == second


@settings(max_examples=100, deadline=None)
@given(ranges())
def test_both_bounds_of_a_range_can_be_reached(found: Range) -> None:
    assert found.decode([0.0], {}) == found.low
    assert found.decode([1.0], {}) == found.high


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(spaces_with_points())
def test_a_space_comes_back_from_json(found: tuple[Space, list[float]]) -> None:
    space, point = found
    again = space_from_json(json.loads(json.dumps(space.to_json())))
    assert again == space
    assert again.decode(point) == space.decode(point)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([">", ">=", "<", "<="]),
    st.booleans(),
    st.lists(unit, min_size=3, max_size=3),
)
def test_a_bound_by_another_parameter_is_never_broken(
    sign: str, is_int: bool, point: list[float]
) -> None:
    step = 1 if is_int else None
    space = make_space(
        [
            Range("c", 0, 10, is_int, step=step, limits=(Limit(sign, "b"),)),
            Range("b", 0, 10, is_int, step=step, limits=(Limit(sign, "a"),)),
            Range("a", 0, 10, is_int, step=step),
        ]
    )
    values = space.decode(point)
    assert space.check(values) == values
    assert len(values) == 3


@settings(max_examples=60, deadline=None)
@given(st.lists(unit, min_size=4, max_size=4))
def test_parameters_that_do_not_apply_are_absent(point: list[float]) -> None:
    space = read_parameters(
        {
            "opt": ["adam", "sgd"],
            "momentum": {"min": 0.1, "max": 0.9, "when": {"opt": "sgd"}},
            "nesterov": {"choices": [True, False], "when": {"opt": "sgd"}},
            "scale": {"min": 1, "max": 5, "when": {"nesterov": True}},
        }
    )
    values = space.decode(point)
    assert ("momentum" in values) is (values["opt"] == "sgd")
    assert ("scale" in values) is (values.get("nesterov") is True)
    assert space.encode(values) is not None


def test_every_learning_rate_is_as_likely_below_the_middle_as_above() -> None:
    space = read_parameters({"lr": {"min": 1e-6, "max": 1e-1}})
    values = [space.decode([(place + 0.5) / 100])["lr"] for place in range(100)]
    assert sum(value < math.sqrt(1e-7) for value in values) == 50


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"lr": 0.5}, ["lr is 0.5", "from 0.0001 to 0.1"]),
        ({"lr": "0.01"}, ["must be a number"]),
        ({"lr": True}, ["must be a number"]),
        ({"lr": float("nan")}, ["lr is nan"]),
        ({"n": 2.5}, ["whole number"]),
        ({"opt": "adm"}, ["'adm'", "adam, sgd"]),
        ({"flag": 1}, ["flag is 1"]),
        ({"opt": "adam", "momentum": 0.5}, ["does not apply", "opt sgd"]),
        ({"lrr": 0.01}, ["no parameter", "Did you mean lr?"]),
    ],
)
def test_a_configuration_that_is_not_in_the_space_says_why(params: Any, words: list[str]) -> None:
    space = read_parameters(
        {
            "lr": {"min": 1e-4, "max": 1e-1},
            "n": {"min": 1, "max": 4},
            "opt": ["adam", "sgd"],
            "flag": [True, False],
            "momentum": {"min": 0.0, "max": 1.0, "when": {"opt": "sgd"}},
        }
    )
    with pytest.raises(SpaceError) as caught:
        space.check(params)
    for word in words:
        assert word in str(caught.value)
    if set(params) <= {"lr", "n"}:
        assert space.encode({**space.decode([0.5] * space.width), **params}) is None
