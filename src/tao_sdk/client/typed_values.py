"""Typed values: from the typed text of a field (`--env A=1`, `--specs FILE`) to its plain value.

Not here: what a value may be, which its Kind says (model/fields.py), and how flags are declared
(cli/flags.py).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tao_sdk.model.errors import UsageError
from tao_sdk.model.fields import FieldError, Kind, read_settings, settings_of
from tao_sdk.model.secrets import is_secret_name
from tao_sdk.model.settings import Settings


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def typed_flag(record: type[Any], name: str) -> str:
    """The flag of a field as people type it: `--label`, not `--labels`; `--gpus`."""
    return next(iter(settings_of(record)[name].metadata["flags"]), flag_of(name))


def read_fields(record: type[Any], typed: Mapping[str, Any]) -> dict[str, Any]:
    """The typed values for fields of `record`, as plain values. Raises UsageError with the flag's
    name.
    """
    given = {name: typed.get(name) for name in settings_of(record)}
    return {
        name: read_field(record, name, value)
        for name, value in given.items()
        if value not in (None, ())
    }


def read_field(record: type[Any], name: str, typed: Any) -> Any:
    kind: Kind = settings_of(record)[name].metadata["kind"]
    if name in TYPED and not kind.flag:
        return TYPED[name].read(typed)
    value = read_pairs(typed_flag(record, name), typed) if kind.pairs else typed
    try:
        read_settings(record, {name: value})
    except FieldError as error:
        raise UsageError(
            error.describe_flag(typed_flag(record, name)), error.why, error.next, error.command
        ) from None
    return value


def read_option_pairs(record: type[Any], typed: Sequence[str], platform: str) -> dict[str, Any]:
    """`--option name=value`, for any option of the platform; given again it makes a list."""
    kinds: dict[str, Kind] = {
        name: declared.metadata["kind"] for name, declared in settings_of(record).items()
    }
    values: dict[str, Any] = {}
    for name, value in map(split_option, typed):
        repeats = name in kinds and kinds[name].multiple
        values[name] = [*values.get(name, []), value] if repeats else value
    for name, value in values.items():
        if name in kinds and kinds[name].pairs:
            values[name] = read_pairs("--option", value)
    try:
        read_settings(record, values, f"{platform}: ")
    except FieldError as error:
        raise UsageError(f"--option {error.what}", error.why, error.next, error.command) from None
    return values


def split_option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--option {text!r} has no value.", "", "Write --option name=value.")
    return name.replace("-", "_"), value


def open_secrets(typed: Iterable[str]) -> list[str]:
    """The names of secrets whose values are in `NAME=VALUE` texts. Others can read such a command
    line.
    """
    split = (text.partition("=") for text in typed)
    return [name for name, equals, _ in split if equals and is_secret_name(name)]


def read_pairs(flag: str, typed: Iterable[str]) -> dict[str, str]:
    """`NAME=VALUE` texts as a mapping. `--env NAME` alone takes the value from this environment, so
    that it is in no command line.
    """
    found: dict[str, str] = {}
    for text in typed:
        name, equals, value = text.partition("=")
        if not equals and flag == "--env":
            value = caller_variable(name)
        elif not equals or not name:
            raise no_pair(flag, text)
        if flag == "--label" and found.get(name, value) != value:
            what = f"--label {name} has two values: {found[name]} and {value}."
            raise UsageError(what, "A job has one value of a label.", "Give one of them.")
        found[name] = value
    return found


def no_pair(flag: str, text: str) -> UsageError:
    """The error for a text that is not NAME=VALUE. It says what to write."""
    pair = f"{text}=VALUE" if text and "=" not in text else f"NAME={text.lstrip('=') or 'VALUE'}"
    what = f"{flag} is {text!r}; it must be NAME=VALUE."
    return UsageError(what, "", f"Write {flag} {shlex.quote(pair)}")


def caller_variable(name: str) -> str:
    """The value of `--env NAME` alone: the caller's value, an empty one too. Raises UsageError if
    the variable is not set.
    """
    environ = Settings.load().environ
    if name not in environ:
        raise UsageError(
            f"--env {name} takes its value from the environment, where {name} is not set.",
            "",
            f"Set it, or write --env {name}=VALUE.",
        )
    return environ[name]


class Typed(NamedTuple):
    """The command-line form of a field that is too rich for a plain value."""

    metavar: str
    multiple: bool
    read: Callable[[Any], Any]


def read_mapping(typed: str) -> dict[str, Any]:
    from tao_sdk.client.document import read_document

    value = read_document(Path(typed))
    if not isinstance(value.data, dict):
        raise UsageError(f"{typed} holds {value.shape}.", "", "A mapping is wanted.")
    return value.plain()


def read_arguments(typed: Iterable[str]) -> dict[str, Any]:
    """NAME=VALUE, where a value is a number, true or false, a list, or a text, as in a job file."""
    from tao_sdk.client.document import compose

    return {
        name: compose(value, f"--args {name}").plain()
        for name, value in read_pairs("--args", typed).items()
    }


def read_inputs(typed: Iterable[str]) -> dict[str, str]:
    """NAME=PATH; or KEY=TYPE where the input is a key of specs or args."""
    texts = list(typed)
    for text in texts:
        if "=" not in text:
            raise nameless_input(text)
    return read_pairs("--inputs", texts)


def nameless_input(text: str) -> UsageError:
    """The error for an input without a name: what to type for a path, or for a key."""
    what = f"--inputs is {text!r}; it must be NAME=PATH."
    if "/" not in text and not os.path.lexists(text):
        advice = f"For a path: --inputs NAME={shlex.quote(text)}. For a key of specs or args: "
        return UsageError(what, "", advice + f"--inputs {shlex.quote(f'{text}=folder')}")
    whole_path = text.startswith("/") and not Path(text).is_file()
    name = text if whole_path else text.rstrip("/").rpartition("/")[2]
    why = "The name is the path under which the command finds it."
    return UsageError(what, why, f"Write --inputs {shlex.quote(f'{name}={text}')}")


def read_datasets(typed: Iterable[str]) -> dict[str, Any]:
    """NAME=ADDRESS; a name that is given again has a list of them. Relative paths start here."""
    from tao_sdk.client.model_request import with_whole_paths

    found: dict[str, Any] = {}
    for text in typed:
        name, equals, address = text.partition("=")
        if not equals or not name:
            raise no_pair("--data", text)
        earlier = found.get(name, [])
        earlier = [earlier] if isinstance(earlier, str) else earlier
        found[name] = [*earlier, address] if earlier else address
    return with_whole_paths(found, Path())


def read_outputs(typed: Sequence[str]) -> Any:
    """Paths in the job; or KEY=TYPE where the output is a key of the spec."""
    if all("=" in text for text in typed):
        return read_pairs("--outputs", typed)
    return list(typed)


def read_typed_files(typed: Iterable[str]) -> dict[str, bytes]:
    """PATH, or PATH-IN-THE-JOB=PATH."""
    from tao_sdk.client.carried_files import read_files
    from tao_sdk.client.document import Place, Value

    place = Place("--files")
    named: dict[str, Value] = {}
    for target, source in map(file_pair, typed):
        if target in named:
            raise UsageError(
                f"--files has two files for {target} in the job: "
                f"{named[target].data} and {source}.",
                "One would write over the other.",
                f"Give one another place: --files PATH-IN-THE-JOB={source}",
            )
        named[target] = Value(place, source, source)
    return read_files("files", Value(place, named), Path())


def file_pair(text: str) -> tuple[str, str]:
    """The path in the job and the path here. A file's name may hold a `=`, too: a text that is a
    file's name as a whole is taken as a whole.
    """
    target, equals, source = text.partition("=")
    if not equals or (os.path.lexists(text) and is_meant_whole(text, source)):
        return Path(text).name, text
    if not source:
        raise UsageError(f"--files is {text!r}; it must be PATH, or PATH-IN-THE-JOB=PATH.")
    return target, source


def is_meant_whole(text: str, source: str) -> bool:
    """True if the text as a whole is the name of a file that is there. Raises UsageError if the
    part after its `=` is a file that is there, too.
    """
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
    "specs": Typed("FILE", False, read_mapping),
    "args": Typed("NAME=VALUE", True, read_arguments),
    "inputs": Typed("NAME=PATH", True, read_inputs),
    "outputs": Typed("PATH|KEY=TYPE", True, read_outputs),
    "files": Typed("[IN-THE-JOB=]PATH", True, read_typed_files),
    "mounts": Typed("SRC:DST[:ro]", True, list),
    "hooks": Typed("NAME=COMMAND", True, partial(read_pairs, "--hooks")),
    "native": Typed("FILE", False, read_mapping),
    "data": Typed("NAME=ADDRESS", True, read_datasets),
}
