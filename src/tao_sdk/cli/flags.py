"""Flags of `tao run`, made of the fields that JobSpec and a platform's Options declare.

Not here: how typed text becomes a plain value (client/typed_values.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import click

from tao_sdk.client.typed_values import TYPED, flag_of
from tao_sdk.model.fields import Kind, settings_of

# prefixes that keep the three sets of flags, and the verb's own, apart
SPEC, MODEL, OPTION = "spec__", "model__", "option__"


def flags(record: type[Any], prefix: str, taken: Iterable[str] = ()) -> list[click.Option]:
    """A flag for each declared field of `record`, except the names in `taken`."""
    taken = set(taken)
    made: list[click.Option] = []
    for name, declared in settings_of(record).items():
        has_flag = declared.metadata["kind"].flag or name in TYPED
        if has_flag and name not in taken:
            made.append(make_option(name, declared, prefix))
    return made


def make_option(name: str, declared: dataclasses.Field[Any], prefix: str) -> click.Option:
    kind: Kind = declared.metadata["kind"]
    names = [prefix + name, flag_of(name), *declared.metadata["flags"]]
    text: str = declared.metadata["help"]
    if kind.schema.get("type") == "boolean":
        return click.Option(
            [prefix + name, f"{flag_of(name)}/--no-{flag_of(name)[2:]}"], default=None, help=text
        )
    if name in TYPED and not kind.flag:
        typed = TYPED[name]
        return click.Option(names, metavar=typed.metavar, multiple=typed.multiple, help=text)
    return click.Option(names, metavar=value_name(kind), multiple=kind.multiple, help=text)


def value_name(kind: Kind) -> str:
    """The word that stands for the flag's value in the help."""
    if kind.pairs:
        return "NAME=VALUE"
    if "enum" in kind.schema:
        return "|".join(kind.schema["enum"])
    numeric = kind.schema.get("type") in ("integer", "number")
    if numeric or kind.schema.get("items", {}).get("type") == "integer":
        return "N"
    return "TEXT"


def typed_under(prefix: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The values typed for one set of flags, by the names of their fields."""
    return {
        name.removeprefix(prefix): value
        for name, value in params.items()
        if name.startswith(prefix)
    }
