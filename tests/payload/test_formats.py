"""Specs as text: what is written reads back equal with the readers that training programs use."""

from __future__ import annotations

import json
import math
import sys

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tao_sdk.model.errors import SpecError
from tao_sdk.payload.formats import template
from tao_sdk.payload.values import Hole
from tao_sdk.runner.template import fill_template

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

READERS = {"json": json.loads, "yaml": yaml.safe_load, "toml": tomllib.loads}
AWKWARD = [
    *(
        "yes",
        "no",
        "on",
        "off",
        "y",
        "N",
        "true",
        "False",
        "null",
        "~",
        "",
        " ",
        "1e3",
        "1e-05",
        "0x10",
        "0o7",
        "012",
        "1_000",
    ),
    *(
        "2001-01-01",
        "2001-01-01 00:00:00",
        "12:30:45",
        "1:2",
        ".inf",
        "-.INF",
        ".nan",
        "nan",
        "inf",
        "=",
        "<<",
        "-",
        "- a",
        "a: b",
    ),
    *(
        "#c",
        "a #b",
        "&a",
        "*a",
        "!t",
        "|",
        ">",
        "%d",
        "@x",
        "`",
        "[",
        "]",
        "{",
        "}",
        ",",
        "?",
        ":",
        "a:",
        "'",
        '"',
        "\\",
        "\\n",
    ),
    *(
        "a\nb",
        "\n",
        "\r\n",
        "\t",
        "\x00",
        "\x1b",
        "\x7f",
        "\x85",
        "\xa0",
        "\u2028",
        "\ufeff",
        "\ufffe",
        "é",
        "日本",
        "😀",
        " lead",
        "trail ",
    ),
    *(
        "---",
        "...",
        "null ",
        "s3://b/k",
        "/a/b.json",
        "C:\\x",
        "${oc.env:X}",
        "{config_path}",
        "1.0",
        "1.",
        ".5",
        "+1",
        "0b1",
        "1e+16",
    ),
]
TEXT = st.one_of(st.sampled_from(AWKWARD), st.text(max_size=8))
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)


def trees(leaves):
    def branches(children):
        return st.one_of(
            st.lists(children, max_size=3), st.dictionaries(TEXT, children, max_size=3)
        )

    return st.dictionaries(TEXT, st.recursive(leaves, branches, max_leaves=12), max_size=4)


def reads_back(tree, config_format):
    text = fill_template(template(tree, config_format), {})
    assert text.isascii()
    return same(READERS[config_format](text), tree), text


def same(a, b):
    """Equal, and of equal types: 1 is not 1.0 and not True."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return type(a) is type(b) and a == b


@pytest.mark.slow
@settings(max_examples=150)
@given(trees(st.one_of(TEXT, NUMBERS, st.none())))
def test_json_reads_back_equal(tree):
    equal, text = reads_back(tree, "json")
    assert equal, text


@pytest.mark.slow
@settings(max_examples=150)
@given(trees(st.one_of(TEXT, NUMBERS, st.none())))
def test_yaml_reads_back_equal_with_safe_load(tree):
    equal, text = reads_back(tree, "yaml")
    assert equal, text


@pytest.mark.slow
@settings(max_examples=150)
@given(trees(st.one_of(TEXT, NUMBERS)))
def test_toml_reads_back_equal_with_tomllib(tree):
    equal, text = reads_back(tree, "toml")
    assert equal, text


@pytest.mark.parametrize("config_format", READERS)
@pytest.mark.parametrize("text", AWKWARD)
def test_an_awkward_string_stays_that_string_as_value_and_as_key(text, config_format):
    tree = {"v": text, "l": [text, {text: text}], "k" + text: {text: 1}}
    equal, written = reads_back(tree, config_format)
    assert equal, written


@pytest.mark.parametrize("config_format", READERS)
@pytest.mark.parametrize(
    "value", [1e-05, 1e16, 1e22, 5e-324, -0.0, 0.1, 1.0, 123456789.123, 2**63 - 1, -(2**63)]
)
def test_a_number_stays_that_number(value, config_format):
    equal, written = reads_back({"lr": value, "list": [value]}, config_format)
    assert equal, written


@pytest.mark.parametrize("config_format", READERS)
@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"a": {}, "b": [], "c": [[]], "d": [{}], "e": [[], {}]},
        {"a": [[1, [2, 3]], [{"x": [{"y": 1}]}]]},
        {"a": [{"b": 1, "c": {"d": [{"e": 1}, {"e": 2}]}}, {"b": 2}], "after": 1},
        {"a": [1, "x", 2.5, True, {"m": 1}]},
        {"k" * 2000: {"l" * 1100: "v" * 5000}},
        {"t": {"u": {"v": {"w": 1}}}, "s": 1},
    ],
)
def test_a_shape_stays_that_shape(tree, config_format):
    equal, written = reads_back(tree, config_format)
    assert equal, written


@pytest.mark.parametrize("config_format", READERS)
@pytest.mark.parametrize("path", ["/plain", '/it\'s a "path" \\ $x', "/日本/😀", "/a\nb", "yes"])
def test_a_path_that_only_the_job_knows_is_filled_in_as_a_string(path, config_format):
    tree = {"a": Hole("a", "given"), "l": [Hole("l[0]", ""), "x"], "t": {"b": Hole("t.b", "kept")}}
    text = fill_template(template(tree, config_format), {"a": path, "l[0]": path})
    assert READERS[config_format](text) == {"a": path, "l": [path, "x"], "t": {"b": "kept"}}


@pytest.mark.parametrize("config_format", ["json", "yaml"])
def test_a_name_that_is_no_unicode_survives(config_format):
    text = fill_template(template({"a": Hole("a", "")}, config_format), {"a": "/x\udcff"})
    assert READERS[config_format](text) == {"a": "/x\udcff"}


def test_toml_refuses_null_with_its_place_and_what_to_do():
    with pytest.raises(SpecError, match=r"specs\.a\[1\]\.b is None.*config_format='yaml'"):
        template({"a": [1, {"b": None}]}, "toml")


def test_toml_refuses_what_is_no_unicode():
    with pytest.raises(SpecError, match=r"specs\.a is not valid Unicode"):
        template({"a": "\udc80"}, "toml")
