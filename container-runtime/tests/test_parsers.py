"""Our readers against well-known ones, and against noise: a value like theirs, or
one clean error.
"""

from __future__ import annotations

import math
import string
from typing import Any

import pytest
import tomllib
import yaml as pyyaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nvidia_container_runtime import argv, cdi_spec, csv_mode, json_text, requirements, toml, yaml
from nvidia_container_runtime.ctk import toml_text

SHORT = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
TEXT = st.text(max_size=12)
KEYS = st.text(string.ascii_letters + string.digits + "-_ .\"'é\\#\n", min_size=1, max_size=8)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


# --- TOML

PIECES = st.sampled_from([
    "a", "b.c", '"q k"', "'l'", "a.b", " = ", "=", "1", "-7", "+1", "0x1f", "0o17", "0b11", "1_000", "1__0", "01", "1.5", "1e3", "-0.0", ".5", "1.",
    "inf", "nan", "-inf", "true", "false", "True", '"s"', '"\\u00e9\\n"', '"\\x"', "'l\\'", '"""m\n l"""', "'''x\n'''", '"""a\\\n   b"""', "[", "]", "[[",
    "]]", "[1, 2]", "[1,\n2,]", "[[1], ['a']]", "{", "}", "{x = 1, y.z = 2}", "{}", ",", "\n", "\n", "\n", " ", "\t", "# c\n", "\r\n", "\x00", "é", "[t]\n",
    "[t.u]\n", "[[arr]]\n", "[a]\n", "k = 1\n", "j = 'x'\n", "x.y = 1\n", "''''", '""""',
])  # fmt: skip


@SHORT
@given(st.lists(PIECES, max_size=14).map("".join))
def test_toml_noise_is_read_as_tomllib_reads_it(text: str) -> None:
    try:
        expected: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        expected = None
    try:
        found: Any = toml.parse(text)
    except toml.TomlFault:
        found = None
    assert same(found, expected), text


VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**62), 2**62),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXT.filter(lambda t: "\r" not in t and t.isprintable()),
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS.filter(str.isprintable), inner, max_size=3)
    ),
    max_leaves=8,
)


@SHORT
@given(st.dictionaries(KEYS.filter(str.isprintable), VALUES, max_size=5))
def test_toml_that_we_write_is_read_back_by_both(value: dict[str, Any]) -> None:
    text = toml_text.written(value)
    assert same(tomllib.loads(text), value)
    assert same(toml.parse(text), value)


EDITS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["a", "b", "c d"]), min_size=1, max_size=3), st.integers(0, 9)
    ),
    min_size=1,
    max_size=6,
)


@SHORT
@given(EDITS)
def test_editing_a_text_keeps_it_a_text_with_those_values(
    edits: list[tuple[list[str], int]],
) -> None:
    edit = toml_text.Edit("# top\nz = 1 # kept\n\n[y]\n# also kept\nx = 2")
    for path, value in edits:
        try:
            edit.set(tuple(path), value)
        except (ValueError, toml.TomlFault):
            continue  # a value stands where a table would have to be
        node: Any = tomllib.loads(edit.text)
        for key in path:
            node = node[key]
        assert node == value
    assert "# top\n" in edit.text
    assert "z = 1 # kept\n" in edit.text
    assert tomllib.loads(edit.text)["y"]["x"] == 2


# --- YAML

SCALARS = st.one_of(
    st.booleans(), st.none(), st.integers(-(2**40), 2**40), TEXT,
    st.sampled_from(["yes", "no", "null", "~", "1", "0x10", "1.5", "a: b", "a #b", "- x", "'", '"', "0666", "/dev/null", "::", "", " lead", "é", "a\nb", "on", "1e5", "=", "2020-01-01"]),
)  # fmt: skip
PLAIN_KEYS = st.text(string.ascii_letters, min_size=1, max_size=6)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAIN_KEYS, inner, max_size=4),
    max_leaves=12,
)


@SHORT
@given(TREES, st.booleans(), st.sampled_from([80, 10000]))
def test_yaml_that_pyyaml_writes_is_read_back_or_refused(
    value: Any, flow: bool, width: int
) -> None:
    text = pyyaml.safe_dump(value, default_flow_style=flow, width=width, allow_unicode=True)
    try:
        found = yaml.parse(text)
    except yaml.YamlFault:
        return  # refusing is allowed, a wrong value is not
    assert same(found, pyyaml.safe_load(text)), text


def values(found: Any) -> Any:
    if isinstance(found, yaml.Plain):
        return found.value
    if isinstance(found, list):
        return [values(one) for one in found]
    return {key: values(one) for key, one in found.items()} if isinstance(found, dict) else found


@SHORT
@given(TREES, st.booleans())
def test_yaml_read_with_its_texts_has_the_same_values(value: Any, flow: bool) -> None:
    text = pyyaml.safe_dump(value, default_flow_style=flow)
    try:
        found = yaml.parse(text)
    except yaml.YamlFault:
        return
    assert same(values(yaml.parse_plain(text)), found), text


PATHS = st.builds(
    str.__add__,
    st.sampled_from(string.ascii_lowercase + "/"),
    st.text(string.ascii_lowercase + string.digits + "/._=-", max_size=20),
)
ENTRIES = st.dictionaries(PLAIN_KEYS, PATHS, min_size=1, max_size=4)


@SHORT
@given(
    st.dictionaries(PLAIN_KEYS, st.lists(ENTRIES, min_size=1, max_size=3), min_size=1, max_size=4)
)
def test_yaml_of_the_kind_that_specs_are_is_never_refused(value: Any) -> None:
    text = pyyaml.safe_dump(value, width=10000)
    assert same(yaml.parse(text), pyyaml.safe_load(text)), text


LINES = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([
    "a: 1", "b:", "- x", "-", "- c: 2", "- - 1", "d: [1, 2]", "e: {f: g}", "'q': 'r''s'", '"t": "u\\n"', "# note", "", "v", "w: |", "w: >", "x: &a 1",
    "y: *a", "z: !!str 1", "---", "...", "k: 'open", "k: [open", "? k", "m: n: o", "p: - q", "\tt: 1", "r: s # c", "u: 'v' w", "aa: 0o7", "bb: 0666", "cc: '']", "{}", "[]", "dd: ''",
])), max_size=7)  # fmt: skip


@SHORT
@given(LINES)
def test_yaml_noise_is_read_as_pyyaml_reads_it_or_refused(lines: list[tuple[int, str]]) -> None:
    text = "".join(" " * indent + line + "\n" for indent, line in lines)
    try:
        found = yaml.parse(text)
    except yaml.YamlFault:
        return
    try:
        expected = pyyaml.safe_load(text)
    except (pyyaml.YAMLError, ValueError) as error:
        pytest.fail(f"read as {found!r} what PyYAML refuses ({error}): {text!r}")
    if "0o7" not in text:  # YAML 1.2's octal, a text to PyYAML
        assert same(found, expected), text


# --- the others: noise gives a value or one clean error


@SHORT
@given(st.text())
def test_noise_is_no_reason_to_crash(text: str) -> None:
    for reader, fault in (
        (toml.parse, toml.TomlFault),
        (yaml.parse, yaml.YamlFault),
        (json_text.whole_value, json_text.JsonFault),
    ):
        try:
            reader(text)
        except fault:
            pass
    for is_json in (True, False):
        try:
            cdi_spec.parse(text, is_json)
        except cdi_spec.CdiFault:
            pass
    csv_mode.parse(text)


@SHORT
@given(
    st.lists(
        st.sampled_from(
            [
                "cuda",
                "arch",
                "driver",
                "brand",
                "x",
                ">=",
                "<=",
                "=",
                "!=",
                "<",
                ">",
                "11",
                "11.6",
                "450.80.02",
                " ",
                ",",
                ".",
                "-rc",
                "v",
                "é",
                "٣",
            ]
        ),
        max_size=9,
    ).map("".join)
)
def test_requirement_noise_holds_or_says_why_not(text: str) -> None:
    try:
        requirements.verify([text], {"cuda": "12.2", "arch": "8.6"})
    except requirements.RequirementFault as fault:
        assert "\n" not in str(fault)


WORDS = st.lists(
    st.sampled_from(
        [
            "create",
            "run",
            "--bundle",
            "-b",
            "--bundle=/x",
            "/y",
            "--log",
            "--log=z",
            "--debug",
            "--root",
            "--unknown",
            "--",
            "-",
            "",
            "box",
            "-bx",
            "--version",
        ]
    ),
    max_size=8,
)


@SHORT
@given(WORDS)
def test_any_command_line_is_read(words: list[str]) -> None:
    line = argv.CommandLine(words)
    assert line.command in ("", "-", *words)
    if line.missing_bundle:
        assert line.command == "create"


@SHORT
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_json_comes_back_as_it_was(value: Any) -> None:
    assert same(json_text.whole_value(json_text.dumps(value)), value)
