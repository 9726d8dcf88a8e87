"""What each parser must do with any bytes: come to a value that a well-known parser agrees with, or
to its own one fault.

One function a parser; anything that they let through as an exception is a finding. `python
fuzz/run.py NAME` has atheris look for one, and the tests run each on the inputs in SEEDS.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from typing import Any

import tomllib
import yaml as pyyaml

from nvidia_container_runtime import argv, cdi_spec, csv_mode, json_text, requirements, toml, yaml
from nvidia_container_runtime.ctk import toml_text


class CoreLoader(pyyaml.SafeLoader):
    """PyYAML with the booleans and floats of YAML 1.2, as the engines' libraries have them: `no` is
    a word.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own name and type
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:bool"]
        for first, pairs in pyyaml.SafeLoader.yaml_implicit_resolvers.items()
    }


CoreLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
CoreLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)
DATES = (datetime.date, datetime.datetime, datetime.time)


def text_of(data: bytes) -> str:
    return data.decode(errors="replace")


def same(left: Any, right: Any) -> bool:
    """Equal in value and in type, not-a-number included."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def has_date(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_date, value.values()))
    return any(map(has_date, value)) if isinstance(value, list) else isinstance(value, DATES)


def toml_text_is_read_as_tomllib_reads_it(data: bytes) -> None:
    text = text_of(data)
    try:
        expected: Any = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        expected = None
    try:
        found: Any = toml.parse(text)
    except toml.TomlFault:
        found = None
    if found is not None and not has_date(expected):
        assert same(found, expected), (found, expected)


def an_edited_file_keeps_its_other_values(data: bytes) -> None:
    text = text_of(data)
    try:
        before = toml.parse(text)
        edit = toml_text.Edit(text)
        edit.set(("fuzz", "key"), 1)
    except (toml.TomlFault, ValueError):
        return
    after = toml.parse(edit.text)
    assert after["fuzz"].pop("key") == 1
    before.get("fuzz", {}).pop("key", None)
    if not after["fuzz"] and "fuzz" not in before:
        del after["fuzz"]
    assert same(after, before), edit.text


def yaml_is_read_as_pyyaml_reads_it_or_refused(data: bytes) -> None:
    text = text_of(data)
    try:
        found = yaml.parse(text)
    except yaml.YamlFault:
        return
    try:
        expected = pyyaml.load(text, Loader=CoreLoader)
    except (pyyaml.YAMLError, ValueError, RecursionError):
        return
    if (
        not has_date(expected) and "0o" not in text
    ):  # octal as of YAML 1.2, which engines read and PyYAML does not
        assert same(found, expected), (found, expected)


def a_cdi_spec_is_valid_or_refused(data: bytes) -> None:
    for is_json in (True, False):
        try:
            spec = cdi_spec.parse(text_of(data), is_json=is_json)
        except cdi_spec.CdiFault:
            continue
        assert "/" in spec["kind"]
        assert all(device["name"] for device in spec["devices"])


def json_is_a_value_or_a_fault(data: bytes) -> None:
    try:
        value = json_text.first_value(text_of(data))
        assert same(json_text.first_value(json_text.dumps(value)), value)
    except json_text.JsonFault:
        return


def a_requirement_holds_or_not_or_is_a_fault(data: bytes) -> None:
    wanted = text_of(data).split("\n")
    for properties in (
        {},
        {"cuda": "12.2", "arch": "9.0", "driver": "550.54.15", "brand": "tesla"},
    ):
        try:
            requirements.verify(wanted, properties)
        except requirements.RequirementFault as fault:
            assert str(fault)


def a_csv_line_is_an_item_or_skipped(data: bytes) -> None:
    text = text_of(data)
    items, skipped = csv_mode.parse(text)
    assert len(items) + len(skipped) == len([line for line in text.split("\n") if line.strip()])
    assert all(
        item.kind in csv_mode.KINDS and item.path.strip() == item.path != "" for item in items
    )


def a_command_line_is_always_understood(data: bytes) -> None:
    words = data.decode(errors="surrogateescape").split("\0")
    line = argv.CommandLine(words)
    assert line.command in ("", *words)
    assert not line.bundle or any(line.bundle in word for word in words)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "toml": toml_text_is_read_as_tomllib_reads_it,
    "toml-edit": an_edited_file_keeps_its_other_values,
    "yaml": yaml_is_read_as_pyyaml_reads_it_or_refused,
    "cdi": a_cdi_spec_is_valid_or_refused,
    "json": json_is_a_value_or_a_fault,
    "requirements": a_requirement_holds_or_not_or_is_a_fault,
    "csv": a_csv_line_is_an_item_or_skipped,
    "argv": a_command_line_is_always_understood,
}
CDI = b'---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: "0"\n  containerEdits:\n    deviceNodes:\n    - path: /dev/null\n'
TOML = b'a = 1\n# c\n[t]\nb = ["x", 2.5]\n[[t.u]]\nc.d = """m\nl"""\n[fuzz]\ni = {x = true}\n'
SEEDS: dict[str, list[bytes]] = {
    "toml": [TOML, b"", b"[broken", b"x = 1979-05-27"],
    "toml-edit": [TOML, b"", b"fuzz = 1", b"fuzz.a = 2\n[t]"],
    "yaml": [
        CDI,
        b"a: {b: [1, 'two']}\nc: |\n  text\n",
        b"a: |\n  x",
        b"a: |\n  x\n   ",
        b"[1,?'two']",
        b"[a?b]",
        b"w: |\n  a: 1\n # c\n",
        b"w: |\n  a: 1\n a: 1\n",
        b"|\n\n\n#",
        b"- &x 1\n- *x\n",
    ],
    "cdi": [
        CDI,
        b'{"cdiVersion":"0.5.0","kind":"a.b/c","devices":[{"name":"x","containerEdits":{"env":["A=b"]}}]}',
    ],
    "json": [b'{"a": [1, 2.5, null, "\\u00e9"]} rest', b"[" * 5000, b'"\\ud800"'],
    "requirements": [b"cuda>=11.6 brand=tesla,driver>=470", b"cuda >=1", b"bogus!=v1.2-rc.1"],
    "csv": [b"dev, /dev/null\nlib,/a b\n\n# no", b"sym,\0"],
    "argv": [b"--root\0/x\0create\0--bundle=/b\0box", b"--log\0create\0state\0-b"],
}
