"""Values of a spec: what is taken, what is refused, and that the place is told."""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib

import numpy
import pytest

from tao_sdk.model.errors import SpecError
from tao_sdk.payload.keys import joined, lookup, put, steps
from tao_sdk.payload.values import plain_mapping, refuse_flat_keys


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Name(str, enum.Enum):
    A = "a"


def plain(value):
    return plain_mapping({"v": value}, "specs")["v"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (numpy.float32(0.5), 0.5),
        (numpy.float64(0.1), 0.1),
        (numpy.int64(7), 7),
        (numpy.bool_(True), True),
        (numpy.str_("x"), "x"),
        (numpy.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (numpy.array(2.5), 2.5),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (Color.RED, "red"),
        (Level.HIGH, 3),
        (Name.A, "a"),
        ((1, (2,)), [1, [2]]),
        ({Color.RED: 1, Name.A: 2}, {"red": 1, "a": 2}),
        (None, None),
        (True, True),
    ],
)
def test_what_people_and_libraries_pass_becomes_plain_data(value, expected):
    result = plain(value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (float("nan"), r"specs\.v is nan"),
        (float("-inf"), r"specs\.v is -inf"),
        ({"a": [1.0, float("inf")]}, r"specs\.v\.a\[1\] is inf"),
        (numpy.array([1.0, numpy.nan]), r"specs\.v\[1\] is nan"),
        (datetime.date(2020, 1, 2), r"specs\.v is a date.*isoformat"),
        (datetime.datetime(2020, 1, 2), r"specs\.v is a datetime.*isoformat"),
        (b"x", r"specs\.v is a bytes.*text"),
        ({1}, r"specs\.v is a set.*sorted"),
        (decimal.Decimal(1), r"specs\.v is a Decimal.*float"),
        ({"m": {1: 2}}, r"specs\.v\.m has the key 1, a int"),
        ({None: 2}, r"specs\.v has the key None"),
        ({"red": 1, Color.RED: 2}, r"specs\.v has the key 'red' twice"),
        (object(), r"specs\.v is a object"),
    ],
)
def test_what_no_config_file_can_hold_is_refused_with_its_place(value, told):
    with pytest.raises(SpecError, match=told):
        plain(value)


def test_a_cycle_is_refused_and_the_same_value_twice_is_not():
    shared = {"x": 1}
    assert plain([shared, shared]) == [{"x": 1}, {"x": 1}]
    cycle: dict = {}
    cycle["self"] = [cycle]
    with pytest.raises(SpecError, match=r"specs\.v\.self\[0\] contains itself"):
        plain(cycle)


def test_too_deep_a_spec_is_refused():
    value: object = 1
    for _ in range(5000):
        value = [value]
    with pytest.raises(SpecError, match="nested more than"):
        plain(value)


def test_the_callers_spec_is_not_changed():
    given = {"a": {"b": [1]}}
    result = plain_mapping(given, "specs")
    put(result, ["a", "b", 0], 2)
    assert given == {"a": {"b": [1]}}


def test_a_flat_dotted_key_is_refused_with_the_nested_form():
    with pytest.raises(SpecError) as refused:
        refuse_flat_keys({"train.optim.lr": 0.1})
    assert "train.optim.lr" in refused.value.what
    assert refused.value.next == "Nest it: {'train': {'optim': {'lr': 0.1}}}"


def test_a_dotted_key_below_the_top_is_the_models_business():
    refuse_flat_keys({"a": {"b.c": 1}})


@pytest.mark.parametrize(
    ("key", "way"),
    [
        ("a", ["a"]),
        ("a.b.c", ["a", "b", "c"]),
        ("a[0].b", ["a", 0, "b"]),
        ("a.b[2][10]", ["a", "b", 2, 10]),
        ("weak-list", ["weak-list"]),
    ],
)
def test_a_key_is_a_way_and_reads_the_same_again(key, way):
    assert steps(key) == way
    assert joined(way) == key


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b", "a[", "a[x]", "[0]", "a[-1]", "a]b"])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(SpecError, match="is no key"):
        steps(key)


def test_a_way_that_leads_nowhere_finds_nothing():
    tree = {"a": [{"b": 1}], "s": "text"}
    assert lookup(tree, steps("a[0].b")) == 1
    for key in ("a[1].b", "a.b", "x", "a[0].b.c", "s[0]", "a[0][0]"):
        assert lookup(tree, steps(key)) is None


def test_setting_makes_mappings_but_never_replaces_what_is_there():
    tree = {"a": [{"b": 1}], "s": "text", "n": None}
    put(tree, steps("n.x.y"), 1)
    put(tree, steps("a[0].c"), 2)
    assert tree == {"a": [{"b": 1, "c": 2}], "s": "text", "n": {"x": {"y": 1}}}
    for key in ("s.x", "a[1].x", "a[5]", "z[0]"):
        with pytest.raises(SpecError, match="cannot be set"):
            put(tree, steps(key), 1)
