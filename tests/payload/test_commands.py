"""Placeholders and arguments in commands, as a real shell reads them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tao_sdk.model.errors import SpecError
from tao_sdk.payload.commands import with_arguments, with_config_path
from tao_sdk.payload.values import Hole
from tao_sdk.runner.template import fill_template

ARGV = f"{sys.executable} -ISc 'import sys,json; print(json.dumps(sys.argv[1:]))'"
SHOW = f'show() {{ {ARGV} "$@"; }}\n'


def words(command, arguments=None, flags=(), values=None):
    """What the program `show` is called with."""
    text = fill_template(with_arguments(SHOW + command, arguments or {}, flags), values or {})
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_named_argument_is_replaced_and_another_is_appended():
    assert words("show {a} end", {"a": 1, "b": "x"}) == ["1", "end", "--b", "x"]


@pytest.mark.parametrize("nothing", [None, "", False])
def test_an_argument_without_a_value_is_left_out_wherever_it_stands(nothing):
    assert words("show x", {"a": nothing}) == ["x"]
    assert words("show x={a} --a {a} {a} y", {"a": nothing}) == ["y"]


@pytest.mark.slow
@pytest.mark.parametrize("nothing", [None, "", False, []])
@pytest.mark.parametrize(
    "word", ['x="{a}"', '"x={a}"', "--x='{a}'", '--x "{a}"', "+train.lr={a}", "'{a}'"]
)
def test_quotes_around_an_argument_without_a_value_go_with_it(nothing, word):
    assert words(f"show {word} y", {"a": nothing}) == ["y"]


@pytest.mark.slow
@pytest.mark.parametrize("nothing", [None, "", False, []])
@pytest.mark.parametrize(
    "command",
    [
        "show /data/{a}/x",
        'show "hello {a}, you"',
        "show model{a}.pth",
        "show > {a}",
        "show $(( {a} + 1 ))",
        "sh -c 'x {a}'",
    ],
)
def test_an_argument_without_a_value_that_is_part_of_a_word_is_refused(nothing, command):
    with pytest.raises(SpecError) as refused:
        words(command, {"a": nothing})
    assert "{a}" in refused.value.what and "args.a has no value" in refused.value.what


def test_nothing_stands_in_a_here_document_for_an_argument_without_a_value():
    assert words('show "$(cat <<E\nx {a} y\nE\n)"', {"a": None}) == ["x  y"]


def test_true_is_the_bare_flag_and_a_list_repeats_its_argument():
    assert words("show", {"verbose": True, "n": [1, 2]}) == ["--verbose", "--n", "1", "--n", "2"]
    assert words("show {n} k={n} --n {n}", {"n": ["a b", "c"]}) == [
        "a b",
        "c",
        "k=a b",
        "k=c",
        "--n",
        "a b",
        "--n",
        "c",
    ]


def test_numbers_and_mappings_are_written_as_programs_read_them():
    assert words("show", {"lr": 1e-05, "n": 3, "m": {"a": [1, True]}}) == [
        "--lr",
        "1e-05",
        "--n",
        "3",
        "--m",
        '{"a": [1, true]}',
    ]


def test_flags_are_appended_with_two_dashes_however_they_were_given():
    assert words("show", {"a": 1}, ["--verbose", "quiet", "-x"]) == [
        "--a",
        "1",
        "--verbose",
        "--quiet",
        "-x",
    ]


def test_a_dash_in_a_name_is_an_underscore_in_a_placeholder_too():
    assert words("show {weak_list} {weak-list}", {"weak-list": "v"}) == ["v", "v"]


def test_other_braces_survive():
    assert words("a=1; show ${a} {} {other} '{\"a\": {}}' {a}", {"a": "v"}) == [
        "1",
        "{}",
        "{other}",
        '{"a": {}}',
        "v",
    ]


@pytest.mark.slow
@settings(max_examples=60)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_any_value_arrives_as_one_word_wherever_the_placeholder_stands(value):
    command = 'show {a} "{a}" \'{a}\' k={a} "k={a}"'
    assert words(command, {"a": value, "b": value}) == [value] * 3 + [f"k={value}"] * 2 + [
        "--b",
        value,
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "value", ["it's; id #", "$(id)", "`id`", "a\nb", "*", "~", "-x", '"', "\\", "!"]
)
def test_a_value_is_never_run(value):
    assert words("show {a}", {"a": value, "b": value}) == [value, "--b", value]
    assert words("show {a}", {"a": Hole("a", "")}, values={"a": value}) == [value]


def test_a_here_document_and_a_comment_do_not_confuse_the_quotes():
    command = "# don't\ncat > /dev/null <<'PY'\nit's {a}\nPY\nshow {a} # isn't it"
    with pytest.raises(SpecError, match="comment or a here-document"):
        words(command, {"a": "x y", "b": 1})
    assert words(command, {"a": "x y"}) == ["x y"]


def test_a_here_document_gets_the_value_as_it_is():
    command = (
        "cat {config_path} <<'PY'\nopen('{config_path}') $HOME `id` \\ "
        "$(id)\nPY\necho {config_path}"
    )
    text = fill_template(with_config_path(command), {"{config_path}": "/a b"})
    done = subprocess.run(
        ["bash", "-c", f'cat() {{ echo "$1"; command cat; }}\n{text}'],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "/a b\nopen('/a b') $HOME `id` \\ $(id)\n/a b\n"


def test_config_mode_replaces_nothing_but_the_config_path():
    command = "printf '{print $1}'; printf ' %s' {} {x} ${EMPTY} {{config_path}} -e {config_path}"
    text = fill_template(with_config_path(command), {"{config_path}": "/s.yaml"})
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "{print $1} {} {x} {/s.yaml} -e /s.yaml"


def test_a_command_that_goes_over_lines_gets_its_arguments_at_its_end():
    assert words("show one \\\n  two\n", {"a": 1}) == ["one", "two", "--a", "1"]


@settings(max_examples=200)
@given(st.text(alphabet="'\"\\ \n#<EOF{a}$`|;x", max_size=30))
def test_a_command_of_any_shape_is_only_changed_at_its_placeholders(command):
    assert fill_template(with_arguments(command, {"zz": None}, ()), {}) == command
