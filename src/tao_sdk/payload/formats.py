"""Formats: a spec as JSON, YAML or TOML text, with holes where only the job knows the value.

What is written reads back equal with json, PyYAML's safe_load (YAML 1.1) and tomllib. Text is
ASCII, so that a reader's locale does not matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from tao_sdk.model.error_field import about_field
from tao_sdk.model.errors import SpecError
from tao_sdk.payload.values import Hole, Tree, walk
from tao_sdk.runner.document import Template
from tao_sdk.runner.quote import STYLES, escaped

Piece = str | Hole
# A word that YAML 1.1 and 1.2 read as a string without quotes. Whatever else there is gets quotes.
YAML_WORD = re.compile(r"[A-Za-z_/][A-Za-z0-9_/-]*(\.[A-Za-z0-9_/-]+)*")
YAML_RESERVED = frozenset("y n yes no on off true false null nan inf".split())
TOML_BARE = re.compile(r"[A-Za-z0-9_-]+")
YAML_LONGEST_KEY = 900  # YAML takes a key before ':' up to 1024 characters


def template(tree: dict[str, Tree], config_format: str) -> Template:
    """The text of the spec in one of the formats."""
    return assemble(WRITERS[config_format](tree), config_format)


def assemble(pieces: Iterator[Piece], style: str) -> Template:
    result = Template(parts=[], holes=[])
    text: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            text.append(piece)
        else:
            result["parts"].append("".join(text))
            given = "null" if piece.given is None else STYLES[style](piece.given)
            result["holes"].append((piece.key, style, given, "", ""))
            text = []
    result["parts"].append("".join(text))
    return result


def number(value: float) -> str:
    """1e-05 as 1.0e-05: without the point YAML 1.1 takes it for a string."""
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def scalar(value: Tree, string: Callable[[str], str]) -> Piece:
    if isinstance(value, Hole):
        return value
    if isinstance(value, str):
        return string(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return number(value)
    return "{}" if isinstance(value, dict) else "[]" if isinstance(value, list) else str(value)


def to_json(tree: dict[str, Tree]) -> Iterator[Piece]:
    yield from json_value(tree, "\n")
    yield "\n"


def json_value(value: Tree, newline: str) -> Iterator[Piece]:
    if not value or not isinstance(value, dict | list):
        yield scalar(value, json.dumps)
        return
    inner = newline + "  "
    pairs = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    yield "{" if isinstance(value, dict) else "["
    for index, (key, item) in enumerate(pairs):
        yield f"{',' if index else ''}{inner}"
        if key is not None:
            yield f"{json.dumps(key)}: "
        yield from json_value(item, inner)
    yield newline + ("}" if isinstance(value, dict) else "]")


def to_yaml(tree: dict[str, Tree]) -> Iterator[Piece]:
    yield from yaml_value(tree, "\n", "")
    yield "\n"


def yaml_value(value: Tree, newline: str, before: str) -> Iterator[Piece]:
    """A value behind `before`; `newline` starts a line at its indentation."""
    if not value or not isinstance(value, dict | list):
        yield before
        yield scalar(value, yaml_string)
        return
    pairs = value.items() if isinstance(value, dict) else (("-", item) for item in value)
    for index, (key, item) in enumerate(pairs):
        if before or index:
            yield newline
        yield from yaml_item(
            key if isinstance(value, list) else yaml_key(key, newline), item, newline
        )


def yaml_item(head: str, item: Tree, newline: str) -> Iterator[Piece]:
    yield head
    if isinstance(item, dict | list) and item:
        yield from yaml_value(item, newline + "  ", " ")
    else:
        yield " "
        yield scalar(item, yaml_string)


def yaml_key(key: str, newline: str) -> str:
    text = yaml_string(key)
    return f"{text}:" if len(text) < YAML_LONGEST_KEY else f"? {text}{newline}:"


def yaml_string(text: str) -> str:
    plain = YAML_WORD.fullmatch(text) and text.lower() not in YAML_RESERVED
    return text if plain else escaped(text)


def to_toml(tree: dict[str, Tree]) -> Iterator[Piece]:
    with about_field("specs"):
        walk(tree, "specs", refuse_for_toml)
    yield from toml_table(tree, "")


def refuse_for_toml(place: str, value: Tree) -> None:
    if value is None:
        raise SpecError(
            f"{place} is None.",
            "TOML has no null.",
            "Leave the key out, or use config_format='yaml' (or 'json').",
        )
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        raise SpecError(
            f"{place} is not valid Unicode.",
            "TOML cannot hold it.",
            "Use config_format='yaml' or 'json'.",
        )


def toml_table(table: dict[str, Tree], path: str) -> Iterator[Piece]:
    """The table's own values, then the tables below it: a value after a header would belong to that
    one.
    """
    for key, value in table.items():
        if not below(value):
            yield f"{toml_key(key)} = "
            yield from toml_value(value)
            yield "\n"
    for key, value in table.items():
        name = f"{path}{toml_key(key)}"
        if isinstance(value, dict):
            yield f"\n[{name}]\n"
            yield from toml_table(value, name + ".")
        elif isinstance(value, list) and below(value):
            for item in value:
                yield f"\n[[{name}]]\n"
                yield from toml_table(item, name + ".") if isinstance(item, dict) else ()


def below(value: Tree) -> bool:
    """Whether it gets a header of its own: a table, or a list of nothing but tables."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, dict) for item in value)
    return isinstance(value, dict)


def toml_value(value: Tree) -> Iterator[Piece]:
    if not value or not isinstance(value, dict | list):
        yield scalar(value, escaped)
        return
    yield "{" if isinstance(value, dict) else "["
    pairs = value.items() if isinstance(value, dict) else (("", item) for item in value)
    for index, (key, item) in enumerate(pairs):
        yield ", " if index else ""
        if isinstance(value, dict):
            yield f"{toml_key(key)} = "
        yield from toml_value(item)
    yield "}" if isinstance(value, dict) else "]"


def toml_key(key: str) -> str:
    return key if TOML_BARE.fullmatch(key) else escaped(key)


WRITERS: dict[str, Callable[[dict[str, Tree]], Iterator[Piece]]] = {
    "json": to_json,
    "yaml": to_yaml,
    "toml": to_toml,
}


def json_line(value: Tree) -> str:
    """A value on one line, for an argument."""
    return json.dumps(value, ensure_ascii=False)
