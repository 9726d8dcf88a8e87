"""Flags of `tao run`, made of the fields that JobSpec and a platform's Options declare.

Here: how a field becomes a flag, and what was typed becomes a plain value. What a value may be, its Kind says (model/fields.py).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from tao_sdk.model.errors import UsageError
from tao_sdk.model.fields import FieldError, Kind, read_settings, settings_of
from tao_sdk.model.settings import Settings

SPEC, OPTION = "spec__", "option__"  # what keeps the two sets of flags, and the verb's own, apart


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def flags(record: type[Any], prefix: str, taken: Iterable[str] = ()) -> list[click.Option]:
    """A flag for each declared field of `record`, but for names in `taken`."""
    fields = {name: declared for name, declared in settings_of(record).items() if name not in set(taken)}
    return [
        option(name, declared, prefix)
        for name, declared in fields.items()
        if declared.metadata["kind"].flag or name in TYPED
    ]


def typed_flag(record: type[Any], name: str) -> str:
    """The flag of a repeated field as people type it: `--label`, not `--labels`."""
    return next(iter(settings_of(record)[name].metadata["flags"]), flag_of(name))


def option(name: str, declared: dataclasses.Field[Any], prefix: str) -> click.Option:
    kind: Kind = declared.metadata["kind"]
    names = [prefix + name, flag_of(name), *declared.metadata["flags"]]
    text: str = declared.metadata["help"]
    if kind.schema.get("type") == "boolean":
        return click.Option([prefix + name, f"{flag_of(name)}/--no-{flag_of(name)[2:]}"], default=None, help=text)
    if name in TYPED and not kind.flag:
        typed = TYPED[name]
        return click.Option(names, metavar=typed.metavar, multiple=typed.multiple, help=text)
    return click.Option(names, metavar=metavar(kind), multiple=kind.multiple, help=text)


def metavar(kind: Kind) -> str:
    if kind.pairs:
        return "NAME=VALUE"
    if "enum" in kind.schema:
        return "|".join(kind.schema["enum"])
    numeric = kind.schema.get("type") in ("integer", "number")
    return "N" if numeric or kind.schema.get("items", {}).get("type") == "integer" else "TEXT"


def given(record: type[Any], params: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """What the flags of `record` say, as plain values. Raises UsageError naming the flag."""
    typed = {name: params.get(prefix + name) for name in settings_of(record)}
    return {name: read(record, name, value) for name, value in typed.items() if value not in (None, ())}


def read(record: type[Any], name: str, typed: Any) -> Any:
    kind: Kind = settings_of(record)[name].metadata["kind"]
    if name in TYPED and not kind.flag:
        return TYPED[name].read(typed)
    value = pairs(typed_flag(record, name), typed) if kind.pairs else typed
    try:
        read_settings(record, {name: value})
    except FieldError as error:
        raise UsageError(error.naming(flag_of(name)), error.why, error.next, error.command) from None
    return value


def generic(record: type[Any], typed: Sequence[str], platform: str) -> dict[str, Any]:
    """`--option name=value`, for any option of the platform; given again it makes a list."""
    values: dict[str, Any] = {}
    for text in typed:
        name, equals, value = text.partition("=")
        name = name.replace("-", "_")
        if not equals:
            raise UsageError(f"--option {text!r} has no value.", "", "Write --option name=value.")
        many = name in settings_of(record) and settings_of(record)[name].metadata["kind"].multiple
        values[name] = [*values.get(name, []), value] if many else value
    for name, value in values.items():
        if name in settings_of(record) and settings_of(record)[name].metadata["kind"].pairs:
            values[name] = pairs("--option", value)
    try:
        read_settings(record, values, f"{platform}: ")
    except FieldError as error:
        raise UsageError(f"--option {error.what}", error.why, error.next, error.command) from None
    return values


def pairs(flag: str, typed: Iterable[str]) -> dict[str, str]:
    """`NAME=VALUE` texts as a mapping. `--env NAME` alone takes the value from here, so that it is in no command line."""
    found: dict[str, str] = {}
    for text in typed:
        name, equals, value = text.partition("=")
        if not equals and flag == "--env":
            value = environment(name)
        elif not equals or not name:
            raise UsageError(f"{flag} is {text!r}; it must be NAME=VALUE.")
        found[name] = value
    return found


def environment(name: str) -> str:
    """What `--env NAME` alone means: the caller's value, an empty one too."""
    environ = Settings.load().environ
    if name not in environ:
        raise UsageError(
            f"--env {name} takes its value from the environment, where {name} is not set.",
            "",
            f"Set it, or write --env {name}=VALUE.",
        )
    return environ[name]


class Typed(NamedTuple):
    """How a field that is too rich for a plain value is typed on the command line."""

    metavar: str
    multiple: bool
    read: Callable[[Any], Any]


def mapping_in(typed: str) -> dict[str, Any]:
    from tao_sdk.client.document import read_document

    value = read_document(Path(typed))
    if not isinstance(value.data, dict):
        raise UsageError(f"{typed} holds {value.shape}.", "", "A mapping is wanted.")
    return value.plain()


def arguments(typed: Iterable[str]) -> dict[str, Any]:
    """NAME=VALUE, where a value is a number, true or false, a list, or a text, as in a job file."""
    from tao_sdk.client.document import compose

    return {name: compose(value, f"--args {name}").plain() for name, value in pairs("--args", typed).items()}


def outputs(typed: Sequence[str]) -> Any:
    """Paths in the job; or KEY=TYPE where the output is a key of the spec."""
    return pairs("--outputs", typed) if all("=" in text for text in typed) else list(typed)


def files(typed: Iterable[str]) -> dict[str, bytes]:
    """PATH, or PATH-IN-THE-JOB=PATH."""
    from tao_sdk.client.document import Place, Value
    from tao_sdk.client.job_file import read_files

    place = Place("--files")
    named: dict[str, Value] = {}
    for target, source in map(file_pair, typed):
        if target in named:
            raise UsageError(
                f"--files has two files for {target} in the job: {named[target].data} and {source}.",
                "One would write over the other.",
                f"Give one another place: --files PATH-IN-THE-JOB={source}",
            )
        named[target] = Value(place, source, source)
    return read_files("files", Value(place, named), Path())


def file_pair(text: str) -> tuple[str, str]:
    """(path in the job, path here). The names of files may hold a `=`, too: what is there as a whole is meant as a whole."""
    target, equals, source = text.partition("=")
    if not equals or (os.path.lexists(text) and is_meant_whole(text, source)):
        return Path(text).name, text
    if not source:
        raise UsageError(f"--files is {text!r}; it must be PATH, or PATH-IN-THE-JOB=PATH.")
    return target, source


def is_meant_whole(text: str, source: str) -> bool:
    """Of the name of a file that is there. Raises UsageError where what is after its `=` is there as well."""
    if text.startswith("./") or not os.path.lexists(source):
        return True
    if source.startswith("./"):
        return False
    target = text.partition("=")[0]
    raise UsageError(
        f"--files {text} can mean two files.",
        f"{text} is there, and {source} is.",
        f"Write ./{text} for the first, {target}=./{source} for {source} under the name {target}.",
    )


TYPED: Mapping[str, Typed] = {
    "specs": Typed("FILE", False, mapping_in),
    "args": Typed("NAME=VALUE", True, arguments),
    "inputs": Typed("NAME=PATH", True, partial(pairs, "--inputs")),
    "outputs": Typed("PATH|KEY=TYPE", True, outputs),
    "files": Typed("[IN-THE-JOB=]PATH", True, files),
    "mounts": Typed("SRC:DST[:ro]", True, list),
    "hooks": Typed("NAME=COMMAND", True, partial(pairs, "--hooks")),
    "native": Typed("FILE", False, mapping_in),
}
