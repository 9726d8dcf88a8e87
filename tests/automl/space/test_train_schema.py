"""Parameters of a TAO network, from the JSON schema of its action."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from tao_automl.space.mistake import SpaceError
from tao_automl.space.parameter import Choice, Range
from tao_automl.space.space import Space
from tao_automl.space.train_schema import SchemaRequest, read_schema_space

Json = Mapping[str, Any]


def schema(properties: Json, **top: Any) -> Json:
    return {"type": "object", "properties": properties, **top}


def nested(**leaves: Json) -> Json:
    return {"train": {"type": "collection", "properties": leaves}}


def space_of(leaf: Json, **request: Any) -> Space:
    found = schema(nested(x={"automl_enabled": True, **leaf}))
    return read_schema_space(SchemaRequest(found, **request))


def values_of(space: Space, key: str = "train.x") -> list[Any]:
    chance = random.Random(3)
    points = [[chance.random() for _ in range(space.width)] for _ in range(300)]
    ends = [[0.0] * space.width, [1.0] * space.width]
    return [values[key] for point in [*ends, *points] if key in (values := space.decode(point))]


def refusal(request: SchemaRequest) -> SpaceError:
    with pytest.raises(SpaceError) as caught:
        read_schema_space(request)
    return caught.value


@pytest.mark.parametrize(
    ("leaf", "low", "high", "is_log"),
    [
        ({"type": "float", "minimum": 1e-5, "maximum": 1e-1}, 1e-5, 1e-1, True),
        ({"type": "float", "minimum": 0.5, "maximum": "inf", "default": 2.0}, 0.5, 20.0, False),
        ({"type": "int", "minimum": 1, "maximum": "inf", "default": 8}, 1, 16, False),
        ({"type": "integer", "minimum": 1, "maximum": 4}, 1, 4, False),
        ({"type": "number", "minimum": 0, "maximum": 1}, 0, 1, False),
        ({"type": "float", "minimum": 0, "maximum": 1, "default": 0.1, "math_cond": "> 0.0"}, 0.001, 1, True),
        ({"type": "int", "minimum": 0, "maximum": 9, "math_cond": "> 0"}, 1, 9, False),
        ({"type": "ordered_int", "minimum": 2, "maximum": 5}, 2, 5, False),
    ],
)  # fmt: skip
def test_bounds_and_scale_of_numbers(leaf: Json, low: float, high: float, is_log: bool) -> None:
    parameter = space_of(leaf).parameters[0]
    assert isinstance(parameter, Range)
    assert (parameter.low, parameter.high, parameter.is_log) == (low, high, is_log)


def test_a_learning_rate_without_an_end_is_searched_by_factors_around_its_default() -> None:
    leaf = {
        "type": "float",
        "minimum": 0,
        "maximum": "inf",
        "default": 2e-4,
        "automl_enabled": True,
    }
    space = read_schema_space(SchemaRequest(schema(nested(lr=leaf))))
    parameter = space.parameters[0]
    assert isinstance(parameter, Range)
    assert parameter.is_log
    assert parameter.low == pytest.approx(2e-6)
    assert parameter.high == pytest.approx(2e-3)


@pytest.mark.parametrize(
    ("leaf", "allowed"),
    [
        ({"type": "categorical", "enum": ["a", "b"]}, ["a", "b"]),
        ({"type": "string", "enum": ["a", "b", "c"], "option_weights": [1, 0, 3]}, ["a", "c"]),
        ({"type": "bool"}, [False, True]),
        ({"type": "boolean", "default": True}, [False, True]),
        ({"type": "ordered_int", "enum": [8, 16, 32]}, [8, 16, 32]),
        ({"type": "int", "minimum": 2, "maximum": 40, "math_cond": "^ 2"}, [2, 4, 8, 16, 32]),
        ({"type": "int", "minimum": 0, "maximum": 8, "math_cond": "^ 2"}, [1, 2, 4, 8]),
        ({"type": "int", "minimum": 20, "maximum": 130, "math_cond": "/ 32"}, [32, 64, 96, 128]),
        ({"anyOf": [{"type": "null"}, {"type": "int", "minimum": 1, "maximum": 3}]}, [1, 2, 3]),
        ({"anyOf": [{"enum": ["a"]}, {"enum": ["b"]}]}, ["a", "b"]),
    ],
)  # fmt: skip
def test_exactly_what_is_allowed_is_proposed(leaf: Json, allowed: list[Any]) -> None:
    values = values_of(space_of(leaf))
    assert sorted(set(values)) == allowed
    assert {type(value) for value in values} == {type(allowed[0])}


def test_a_power_is_the_one_that_was_proposed() -> None:
    space = space_of({"type": "int", "minimum": 2, "maximum": 64, "math_cond": "^ 2"})
    climbing = [space.decode([place / 20])["train.x"] for place in range(21)]
    assert climbing == sorted(climbing)


@pytest.mark.parametrize(
    ("leaf", "length"),
    [
        ({"type": "list_2", "minimum": 0.1, "maximum": 0.9}, 2),
        ({"type": "list_3", "minimum": [0.1, 0.2, 0.3], "maximum": [0.5, 0.6, 0.9]}, 3),
    ],
)
def test_lists_have_their_length_and_each_element_its_bounds(leaf: Json, length: int) -> None:
    for value in values_of(space_of(leaf)):
        assert len(value) == length
        assert all(0.1 <= element <= 0.9 for element in value)


def test_a_subset_is_never_empty_and_keeps_the_order() -> None:
    values = values_of(space_of({"type": "subset_list", "enum": ["a", "b", "c"]}))
    assert all(
        value == [one for one in ["a", "b", "c"] if one in value] and value for value in values
    )
    assert len({tuple(value) for value in values}) == 7


def test_an_optional_list_is_none_or_a_list() -> None:
    leaf = {"type": "optional_list", "default": [1, 2], "minimum": 1, "maximum": 5}
    values = values_of(space_of(leaf))
    assert None in values
    assert all(
        value is None or (len(value) == 2 and all(type(one) is int for one in value))
        for value in values
    )


def test_a_bound_by_another_parameter_holds_in_every_draw() -> None:
    leaves = {
        "low": {"type": "float", "minimum": 0.0, "maximum": 1.0, "automl_enabled": True},
        "high": {
            "type": "float", "minimum": 0.0, "maximum": 1.0, "automl_enabled": True,
            "depends_on": "train.low", "math_cond": "> depends_on",
        },
    }  # fmt: skip
    space = read_schema_space(SchemaRequest(schema(nested(**leaves))))
    chance = random.Random(5)
    corners = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    for point in [*corners, *([chance.random(), chance.random()] for _ in range(300))]:
        values = space.decode(point)
        assert values["train.high"] > values["train.low"]


def test_a_bound_by_a_parameter_that_is_not_searched_is_its_value_in_the_spec() -> None:
    leaves = {
        "low": {"type": "int", "default": 3},
        "high": {
            "type": "int", "minimum": 1, "maximum": 6, "automl_enabled": True,
            "depends_on": "low", "math_cond": "> depends_on",
        },
    }  # fmt: skip
    request = SchemaRequest(schema(nested(**leaves)), spec={"train.low": 4})
    assert set(values_of(read_schema_space(request), "train.high")) == {5, 6}


def test_a_parameter_that_a_switch_turns_off_is_absent() -> None:
    leaves = {
        "augment": {"type": "bool", "automl_enabled": True},
        "strength": {
            "type": "float", "minimum": 0, "maximum": 1, "automl_enabled": True,
            "depends_on": "train.augment",
        },
    }  # fmt: skip
    space = read_schema_space(SchemaRequest(schema(nested(**leaves))))
    assert space.decode([0.1, 0.5]) == {"train.augment": False}
    assert "train.strength" in space.decode([0.9, 0.5])


def test_the_default_parameters_are_searched_and_the_disabled_are_not() -> None:
    leaves = {
        name: {"type": "int", "minimum": 1, "maximum": 4, "automl_enabled": True} for name in "abc"
    }
    found = schema(
        {**nested(**leaves), "evaluate": {"properties": {"a": dict(leaves["a"])}}},
        automl_default_parameters=["train.a", "train.b", "evaluate.a"],
        automl_disabled_parameters=["train.b"],
    )
    assert read_schema_space(SchemaRequest(found)).keys == ["train.a"]
    assert "disabled" in str(refusal(SchemaRequest(found, keys=["train.b"])))
    assert "not of the action train" in str(refusal(SchemaRequest(found, keys=["evaluate.a"])))
    request = SchemaRequest(found, keys=["train.b"], override_disabled=True)
    assert read_schema_space(request).keys == ["train.b"]
    assert "Did you mean train.c?" in str(refusal(SchemaRequest(found, keys=["trian.c"])))


@pytest.mark.parametrize(
    ("leaf", "custom", "allowed"),
    [
        ({"type": "int", "minimum": 1, "maximum": 99}, {"valid_min": 3, "valid_max": 5}, [3, 4, 5]),
        ({"type": "int", "enum": [1, 2]}, {"valid_min": 3, "valid_max": 5}, [3, 4, 5]),
        ({"type": "int", "minimum": 1, "maximum": 99}, {"valid_options": [2, 4], "value_type": "ordered_int"}, [2, 4]),
        ({"type": "string"}, {"valid_options": ["a", "b"]}, ["a", "b"]),
        ({"type": "string"}, {"valid_options": ["a", "b", "c"], "option_weights": [0, 1, 1]}, ["b", "c"]),
        ({"type": "categorical", "enum": ["a", "b", "c"]}, {"disable_list": ["a"]}, ["b", "c"]),
    ],
)  # fmt: skip
def test_a_range_of_the_users_own_wins(leaf: Json, custom: Json, allowed: list[Any]) -> None:
    space = space_of(leaf, custom_ranges={"train.x": custom})
    assert sorted(set(values_of(space))) == allowed


def test_whole_options_of_value_type_ordered_int_have_an_order() -> None:
    custom = {"train.x": {"valid_options": [2, 4, 8], "value_type": "ordered_int"}}
    parameter = space_of({"type": "int"}, custom_ranges=custom).parameters[0]
    assert isinstance(parameter, Choice)
    assert parameter.is_ordered


@pytest.mark.parametrize(
    ("leaf", "request_", "words"),
    [
        ({"type": "string"}, {}, ["of type string", "valid_options"]),
        ({"type": "float", "minimum": 0, "maximum": "inf"}, {}, ["no maximum", "valid_max"]),
        ({"type": "int", "minimum": 5, "maximum": 5}, {}, ["nothing to search"]),
        ({"type": "int", "minimum": 3, "maximum": 3.5, "math_cond": "^ 2"}, {}, ["powers of 2"]),
        ({"type": "int", "minimum": 1, "maximum": 9, "math_cond": "around 3"}, {}, ["nobody understands"]),
        ({"type": "int", "minimum": 1, "maximum": 9, "math_cond": "> depends_on", "depends_on": "y"}, {}, ["depends on y"]),
        ({"type": "int", "minimum": 1, "maximum": 9}, {"custom_ranges": {"train.x": {"valid_mn": 1}}}, ["Did you mean valid_min?"]),
        ({"type": "int", "minimum": 1, "maximum": 9}, {"custom_ranges": {"train.y": {}}}, ["no parameter", "train.x"]),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_says_why(leaf: Json, request_: Any, words: list[str]) -> None:
    found = schema(nested(x={"automl_enabled": True, **leaf}))
    text = str(refusal(SchemaRequest(found, **request_)))
    for word in words:
        assert word in text
