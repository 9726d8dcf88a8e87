"""Parameters as a person writes them."""

from __future__ import annotations

from typing import Any

import pytest

from tao_automl.space.mistake import SpaceError
from tao_automl.space.parameter import Choice, Parameter, Range
from tao_automl.space.search_block import read_parameters
from tao_sdk.model.errors import SpecError


def only(given: Any) -> Parameter:
    return read_parameters({"train.x": given}).parameters[0]


def refusal(parameters: Any) -> SpaceError:
    with pytest.raises(SpaceError) as caught:
        read_parameters(parameters)
    return caught.value


@pytest.mark.parametrize(
    ("given", "is_log"),
    [
        ({"min": 1e-6, "max": 1e-1}, True),
        ({"min": 0.001, "max": 0.1}, True),  # two decades to the digit
        ({"min": 1, "max": 100}, True),
        ({"min": 0.002, "max": 0.1}, False),
        ({"min": 0, "max": 1000}, False),
        ({"min": 1e-6, "max": 1e-1, "log": False}, False),
        ({"min": 1, "max": 2, "log": True}, True),
    ],
)
def test_a_range_of_two_decades_is_searched_on_a_log_scale(given: Any, is_log: bool) -> None:
    parameter = only(given)
    assert isinstance(parameter, Range)
    assert parameter.is_log is is_log


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"min": 1, "max": 8}, int),
        ({"min": 1.0, "max": 8}, float),
        ({"min": 1, "max": 8, "type": "float"}, float),
        ({"min": 1.0, "max": 8.0, "type": "int"}, int),
        ({"min": 16, "max": 64, "step": 16}, int),
        ({"min": "1e-4", "max": "1e-1"}, float),  # YAML reads 1e-4 as a text
    ],
)
def test_whole_bounds_make_whole_numbers(given: Any, kind: type) -> None:
    value = read_parameters({"x": given}).decode([0.3])["x"]
    assert type(value) is kind


def test_weights_conditions_and_defaults_are_kept() -> None:
    space = read_parameters(
        {
            "train.momentum": {"min": 0.0, "max": 0.99, "when": {"env.OPTIMIZER": "sgd"}},
            "env.OPTIMIZER": {"choices": ["adam", "sgd", "old"], "weights": [2, 1, 0]},
            "{layers}": {"choices": [2, 4, 8], "ordered": True, "default": 4},
        }
    )
    optimizer, momentum, layers = (
        next(one for one in space.parameters if one.key == key)
        for key in ("env.OPTIMIZER", "train.momentum", "{layers}")
    )
    assert isinstance(optimizer, Choice)
    assert optimizer.options == ("adam", "sgd")  # a weight of 0 is never
    assert momentum.when == (("env.OPTIMIZER", ("sgd",)),)
    assert layers.default == 4
    assert space.keys.index("env.OPTIMIZER") < space.keys.index("train.momentum")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"min": 1, "mx": 2}, ["'mx'", "Did you mean max?"]),
        ({"choices": [1, 2], "weigths": [1, 1]}, ["weigths", "Did you mean weights?"]),
        ({"min": 1}, ["no max"]),
        ({"min": 2, "max": 1}, ["min 2 above max 1", "Exchange"]),
        ({"min": 1, "max": 1}, ["one value"]),
        ({"min": 0, "max": 1, "log": True}, ["log scale never reaches", "log: false"]),
        ({"min": 0, "max": 1, "step": 0.3}, ["the last value is 0.9", "Write max: 0.9"]),
        ({"min": 0, "max": 1, "step": 0}, ["step 0"]),
        ({"min": "small", "max": 1}, ["'small'", "must be a number"]),
        ({"min": True, "max": 3}, ["must be a number"]),
        ({"min": float("nan"), "max": 3}, ["must be a number"]),
        ({"min": 1, "max": 3, "default": 5}, ["a default that is 5", "from 1 to 3"]),
        ({"min": 1, "max": 3, "default": 1.5}, ["whole number"]),
        ({"min": 1, "max": 3, "type": "flaot"}, ["float"]),
        ({"min": 1, "max": 3, "log": "yes"}, ["true or false"]),
        ([], ["not empty"]),
        ([1], ["one choice"]),
        ([1, 2, 1], ["1 twice"]),
        ({"choices": [1, 2], "weights": [1]}, ["2 choices and 1 weights"]),
        ({"choices": [1, 2], "weights": [0, 0]}, ["all 0"]),
        ({"choices": [1, 2], "default": True}, ["is True"]),
        (3, ["must be a range or a list"]),
        ({"min": 1, "max": 2, "when": {}}, ["when"]),
        ({"min": 1, "max": 2, "when": {"other": 1}}, ["depends on other"]),
    ],
)
def test_a_mistake_names_the_key_and_what_to_write(given: Any, words: list[str]) -> None:
    error = refusal({"train.x": given})
    assert error.field == "train.x"
    assert isinstance(error, SpecError)
    for word in ["train.x", *words]:
        assert word in str(error)


@pytest.mark.parametrize("key", ["", "a b", "{lr", "{1}", "env.2", "env."])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    assert "key" in str(refusal({key: [1, 2]})) or "env" in str(refusal({key: [1, 2]}))


def test_a_key_within_another_is_refused() -> None:
    assert "lies within train" in str(refusal({"train": [1, 2], "train.lr": [1, 2]}))


def test_a_condition_on_a_value_that_never_is_names_the_near_one() -> None:
    error = refusal({"opt": ["adam", "sgd"], "m": {"min": 0, "max": 1, "when": {"opt": "sdg"}}})
    assert "'sdg'" in str(error)
    assert "Did you mean sgd?" in str(error)


def test_parameters_that_depend_on_each_other_are_refused() -> None:
    error = refusal(
        {
            "a": {"choices": [1, 2], "when": {"b": 1}},
            "b": {"choices": [1, 2], "when": {"a": 1}},
        }
    )
    assert "depend on each other: a, b" in str(error)


def test_nothing_to_search_is_refused() -> None:
    assert "no parameter" in str(refusal({}))
