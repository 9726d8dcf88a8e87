"""Formats: a spec as JSON, YAML or TOML text, with holes where only the job knows the value.

What is written reads back equal with json, PyYAML's safe_load (YAML 1.1) and tomllib. Text is
ASCII, so that a reader's locale does not matter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeGuard

from tao_sdk.model.error_field import about_field
from tao_sdk.model.errors import SpecError
from tao_sdk.model.lazy_pattern import lazy_compile
from tao_sdk.payload.values import Hole, Tree, walk
from tao_sdk.runner.document import Template
from tao_sdk.runner.quote import STYLES, double_quoted

Piece = str | Hole
# A word that YAML 1.1 and 1.2 read as a string without quotes. Whatever else there is gets quotes.
YAML_WORD = lazy_compile(r"[A-Za-z_/][A-Za-z0-9_/-]*(\.[A-Za-z0-9_/-]+)*")
YAML_RESERVED = frozenset("y n yes no on off true false null nan inf".split())
SURROGATE = lazy_compile("[\ud800-\udfff]")
CONSTANTS = {None: "null", True: "true", False: "false"}
TOML_BARE = lazy_compile(r"[A-Za-z0-9_-]+")
YAML_LONGEST_KEY = 900  # YAML takes a key before ':' up to 1024 characters


def template(tree: dict[str, Tree], config_format: str) -> Template:
    """The text of the spec in one of the formats."""
    return assemble(WRITERS[config_format](tree), config_format)


def assemble(pieces: Iterator[Piece], style: str) -> Template:
    """Pieces as a template: a part of text before each hole, and one at the end."""
    result = Template(parts=[], holes=[])
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        result["parts"].append(text)
        result["holes"].append((piece.key, style, given_text(piece, style), "", ""))
        text = ""
    result["parts"].append(text)
    return result


def given_text(hole: Hole, style: str) -> str:
    """The value that stood in the place of a hole, as the format writes it."""
    if hole.given is None:
        return "null"
    return STYLES[style](hole.given)


def format_number(value: float) -> str:
    """1e-05 as 1.0e-05: without the point YAML 1.1 takes it for a string."""
    text = repr(value)
    if "." in text:
        return text
    return text.replace("e", ".0e")


def format_scalar(value: Tree, format_text: Callable[[str], str]) -> Piece:
    """The text of a value that holds no others, or of an empty mapping or list."""
    if isinstance(value, Hole):
        return value
    if isinstance(value, str):
        return format_text(value)
    if value is None or isinstance(value, bool):
        return CONSTANTS[value]
    if isinstance(value, float):
        return format_number(value)
    return str(value)  # a number, {} or []


def is_branch(value: Tree) -> TypeGuard[dict[str, Tree] | list[Tree]]:
    """True for a mapping or a list that holds something."""
    return isinstance(value, dict | list) and bool(value)


def to_json(tree: dict[str, Tree]) -> Iterator[Piece]:
    yield from json_value(tree, "\n")
    yield "\n"


def json_value(value: Tree, newline: str) -> Iterator[Piece]:
    """The JSON pieces of a value. `newline` starts a line at its indentation."""
    if not is_branch(value):
        yield format_scalar(value, json.dumps)
        return
    opening, closing = brackets(value)
    inner = newline + "  "
    separator = ""
    yield opening
    for head, item in headed_items(value, json_head):
        yield f"{separator}{inner}{head}"
        yield from json_value(item, inner)
        separator = ","
    yield f"{newline}{closing}"


def json_head(key: str) -> str:
    return f"{json.dumps(key)}: "


def brackets(value: dict[str, Tree] | list[Tree]) -> tuple[str, str]:
    """The brackets around the items of a mapping or a list, in JSON and TOML."""
    if isinstance(value, dict):
        return "{", "}"
    return "[", "]"


def headed_items(
    value: dict[str, Tree] | list[Tree], format_key: Callable[[str], str]
) -> Iterator[tuple[str, Tree]]:
    """Each item with the text before it: the key in a mapping, nothing in a list."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield format_key(key), item
        return
    for item in value:
        yield "", item


def to_yaml(tree: dict[str, Tree]) -> Iterator[Piece]:
    yield from yaml_value(tree, "\n", "")
    yield "\n"


def yaml_value(value: Tree, newline: str, before: str) -> Iterator[Piece]:
    """The YAML pieces of a value behind `before`. `newline` starts a line at its indentation."""
    if not is_branch(value):
        yield before
        yield format_scalar(value, yaml_string)
        return
    separator = newline if before else ""
    for head, item in headed_items(value, partial(yaml_key, newline=newline)):
        yield separator
        yield from yaml_item(head or "-", item, newline)
        separator = newline


def yaml_item(head: str, item: Tree, newline: str) -> Iterator[Piece]:
    yield head
    yield from yaml_value(item, newline + "  ", " ")


def yaml_key(key: str, newline: str) -> str:
    text = yaml_string(key)
    if len(text) < YAML_LONGEST_KEY:
        return f"{text}:"
    return f"? {text}{newline}:"


def yaml_string(text: str) -> str:
    """The text, without quotes if every reader takes it for the same string."""
    if text.lower() in YAML_RESERVED or not YAML_WORD.fullmatch(text):
        return double_quoted(text)
    return text


def to_toml(tree: dict[str, Tree]) -> Iterator[Piece]:
    with about_field("specs"):
        walk(tree, "specs", refuse_for_toml)
    yield from toml_table(tree, "")


def refuse_for_toml(place: str, value: Tree) -> None:
    """Raise SpecError for a value that TOML cannot hold."""
    if value is None:
        raise SpecError(
            f"{place} is None.",
            "TOML has no null.",
            "Leave the key out, or use config_format='yaml' (or 'json').",
        )
    if isinstance(value, str) and SURROGATE.search(value):
        raise SpecError(
            f"{place} is not valid Unicode.",
            "TOML cannot hold it.",
            "Use config_format='yaml' or 'json'.",
        )


def toml_table(table: dict[str, Tree], path: str) -> Iterator[Piece]:
    """The table's own values, then the tables below it: a value after a header would belong to that
    header's table.
    """
    tables = {key: tables_of(value) for key, value in table.items()}
    for key, value in table.items():
        if tables[key] is None:
            yield toml_head(key)
            yield from toml_value(value)
            yield "\n"
    for key, below in tables.items():
        name = f"{path}{toml_key(key)}"
        header = f"[[{name}]]" if isinstance(table[key], list) else f"[{name}]"
        for item in below or ():
            yield f"\n{header}\n"
            yield from toml_table(item, name + ".")


def tables_of(value: Tree) -> list[dict[str, Tree]] | None:
    """The tables that get a header of their own: a mapping, or a list of nothing but mappings.

    None for any other value.
    """
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list) or not value:
        return None
    tables = [item for item in value if isinstance(item, dict)]
    if len(tables) < len(value):
        return None
    return tables


def toml_value(value: Tree) -> Iterator[Piece]:
    """A value on one line."""
    if not is_branch(value):
        yield format_scalar(value, double_quoted)
        return
    opening, closing = brackets(value)
    separator = ""
    yield opening
    for head, item in headed_items(value, toml_head):
        yield f"{separator}{head}"
        yield from toml_value(item)
        separator = ", "
    yield closing


def toml_head(key: str) -> str:
    return f"{toml_key(key)} = "


def toml_key(key: str) -> str:
    if TOML_BARE.fullmatch(key):
        return key
    return double_quoted(key)


WRITERS: dict[str, Callable[[dict[str, Tree]], Iterator[Piece]]] = {
    "json": to_json,
    "yaml": to_yaml,
    "toml": to_toml,
}


def json_line(value: Tree) -> str:
    """A value on one line, for an argument."""
    return json.dumps(value, ensure_ascii=False)
