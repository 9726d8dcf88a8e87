"""Fields of JobSpec and Options. Each is declared once, for the job file, keyword arguments, the
command's flags and the JSON Schema alike.

A field's Kind says how a value is read, what is allowed, and how JSON Schema puts it.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from inspect import cleandoc
from typing import Any, NamedTuple, TypeVar, cast

from tao_sdk.model.errors import SpecError
from tao_sdk.model.units import format_duration, parse_duration, parse_size
from tao_sdk.model.unwrapped import unwrap_value

T = TypeVar("T")
D = TypeVar("D", bound=Any)
LEAST_BYTES = 1024**2  # a size without a unit that is smaller is no number of bytes
# Other tools' names for fields.
OTHER_NAMES: Mapping[str, str] = {
    "timeout": "time_limit",
    "walltime": "time_limit",
    "num_gpus": "gpu_count",
    "cmd": "command",
    "script": "command",
    "environment": "env_vars",
    "volumes": "mounts",
    "tags": "labels",
}
Json = Mapping[str, Any]


class Kind(NamedTuple):
    """The way a value of a field is read. `read` raises ValueError or TypeError for a value that is
    not allowed.
    """

    allowed: str  # ends the sentence "`gpu_count` must be ..."
    read: Callable[[Any], Any]
    schema: Json
    multiple: bool = False  # as a flag it may be given several times
    pairs: bool = False  # as a flag it is given as NAME=VALUE
    flag: bool = True  # False: too rich for the command line


def _read_text(value: Any) -> str:
    value = unwrap_value(value)
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    raise TypeError


def _integer_reader(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or int(value) != float(value) or int(value) < least:
            raise ValueError
        return int(value)

    return read


def _read_number(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool) or not 0 < number < float("inf"):
        raise ValueError
    return number


def _read_yes_or_no(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "yes": True, "false": False, "no": False}[str(value).lower()]


def _read_duration(value: Any) -> timedelta:
    duration = value if isinstance(value, timedelta) else parse_duration(str(value))
    if duration <= timedelta(0):
        raise ValueError
    return duration


def _read_size(value: Any) -> str:
    if isinstance(value, bool) or parse_size(str(value)) < 1 or has_no_unit(value):
        raise ValueError
    return str(value)


def has_no_unit(value: Any) -> bool:
    """True for `32`: it is 32 bytes, but the writer means 32 GiB. False for a plausible number of
    bytes.
    """
    return is_number(value) and float(value) < LEAST_BYTES


def is_number(value: Any) -> bool:
    """True for `32`, as a number or a text; False for `32g`."""
    return re.fullmatch(r"\d+(\.\d+)?", str(value).strip(), re.ASCII) is not None


def _list_reader(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def read_all(value: Any) -> tuple[Any, ...]:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise TypeError
        return tuple(read(item) for item in cast(Iterable[Any], value))

    return read_all


def _read_mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(
        isinstance(key, str) for key in cast(Mapping[Any, Any], value)
    ):
        raise TypeError
    return dict(cast(Mapping[str, Any], value))


def _read_anything(value: Any) -> Any:
    return value


def _read_map_of_text(value: Any) -> dict[str, Any]:
    from tao_sdk.model.secrets import Secret, SecretRef

    def text(item: Any) -> Any:
        item = unwrap_value(item)
        if isinstance(item, bool):
            return str(item).lower()
        if isinstance(item, (Secret, SecretRef)):
            return item
        return _read_text(item)

    return {key: text(item) for key, item in _read_mapping(value).items() if item is not None}


TEXT = Kind("a text", _read_text, {"type": ["string", "number"]})
NUMBER = Kind("a number above 0", _read_number, {"type": "number", "exclusiveMinimum": 0})
YES_OR_NO = Kind("true or false", _read_yes_or_no, {"type": "boolean"})
DURATION = Kind("a duration such as 90s, 30m, 4h or 1-12:00:00", _read_duration, {"type": "string"})
SIZE = Kind("a size such as 512m, 8g or 1.5T", _read_size, {"type": ["string", "integer"]})
TEXTS = Kind(
    "a list of texts",
    _list_reader(_read_text),
    {"type": "array", "items": {"type": "string"}},
    multiple=True,
)
MAP_OF_TEXT = Kind(
    "a mapping of names to texts",
    _read_map_of_text,
    {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    multiple=True,
    pairs=True,
)
MAPPING = Kind("a mapping", _read_mapping, {"type": "object"}, flag=False)
CONTENTS = MAPPING._replace(
    allowed="a mapping of paths in the job to contents, such as {'train.py': Path('train.py')}"
)
ANYTHING = Kind("anything", _read_anything, {}, flag=False)


def integer(least: int) -> Kind:
    return Kind(
        f"a whole number of {least} or more",
        _integer_reader(least),
        {"type": "integer", "minimum": least},
    )


def integers(least: int) -> Kind:
    return Kind(
        f"a list of whole numbers of {least} or more",
        _list_reader(_integer_reader(least)),
        {"type": "array", "items": {"type": "integer", "minimum": least}},
        multiple=True,
    )


def choice(*names: str) -> Kind:
    def read(value: Any) -> str:
        if value not in names:
            raise ValueError
        return str(value)

    return Kind("one of " + ", ".join(names), read, {"enum": list(names)})


def setting(
    kind: Kind,
    default: Any = None,
    help: str = "",
    flags: tuple[str, ...] = (),
    habits: Mapping[str, str] | None = None,
) -> Any:
    """A dataclass field: its kind, its default (None: not given), its help, and further names of
    its flag. `habits` maps a value that other tools take to the advice what to write instead. A key
    may be the value's beginning up to an equals sign.
    """
    metadata = {"kind": kind, "help": help, "flags": flags, "habits": habits or {}}
    if isinstance(default, (dict, list)):
        return dataclasses.field(default_factory=cast(Any, default).copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def settings_of(record: Any) -> dict[str, dataclasses.Field[Any]]:
    """The declared fields of a dataclass, by name."""
    return {field.name: field for field in dataclasses.fields(record) if "kind" in field.metadata}


def lists_fields(record: type[Any] | None = None) -> Callable[[D], D]:
    """A decorator that ends the docstring with a line for each field of `record`, by default of the
    decorated dataclass.
    """

    def add(documented: D) -> D:
        lines = field_lines(record or documented)
        documented.__doc__ = "\n".join([cleandoc(documented.__doc__ or ""), "", *lines])
        return documented

    return add


def field_lines(record: Any) -> list[str]:
    """`gpu_count (a whole number of -1 or more; 1 if not given): GPUs per node; ...`, by field."""
    lines: list[str] = []
    for name, field in settings_of(record).items():
        allowed = field.metadata["kind"].allowed
        if field.default not in (None, "", (), dataclasses.MISSING):
            allowed = f"{allowed}; {field.default} if not given"
        lines.append(f"{name} ({allowed}): {field.metadata['help']}")
    return lines


def read_settings(record: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """Make a `record` from plain values, each read by its kind.

    Raises SpecError that names the field, the value, and what is allowed; for an unknown field, the
    field that was probably meant.
    """
    known = settings_of(record)
    for name in values:
        if name not in known:
            raise unknown_field(name, known, where, field_of_flag(name, known))
    given = {
        name: _read_value(known[name], value, where)
        for name, value in values.items()
        if value is not None
    }
    return record(**given)


def field_of_flag(name: str, fields: Mapping[str, dataclasses.Field[Any]]) -> str:
    """The field whose flag is called so, `gpu_count` for `gpus`, or that other tools call so; else
    \"\".
    """
    flag = f"--{name.replace('_', '-')}"
    for known, declared in fields.items():
        if flag in declared.metadata["flags"] or known == OTHER_NAMES.get(name):
            return known
    return ""


def unknown_field(name: str, known: Iterable[str], where: str = "", meant: str = "") -> FieldError:
    """The error for an unknown name. `meant`: the field that was surely meant."""
    import difflib

    near = [meant] if meant else difflib.get_close_matches(name, list(known), n=1)
    hint = f"Did you mean {near[0]}?" if near else "Known are: " + ", ".join(sorted(known)) + "."
    return FieldError(name, f"{where}unknown key {name!r}.", "", hint)


class FieldError(SpecError):
    """A SpecError that knows its field, so that a reader of files can add the line.

    `clause` describes the mistake without the field's name, for readers that name the field
    otherwise: `is 3; it must be a text`.
    """

    def __init__(
        self,
        field: str,
        what: str,
        why: str = "",
        next: str = "",
        command: str = "",
        clause: str = "",
    ) -> None:
        super().__init__(what, why, next, command)
        self.field = field
        self.clause = clause

    def describe_flag(self, flag: str) -> str:
        """Describe the mistake by the flag that gave the field."""
        if self.clause:
            return f"{flag} {self.clause}."
        return self.what


def _read_value(field: dataclasses.Field[Any], value: Any, where: str) -> Any:
    kind: Kind = field.metadata["kind"]
    try:
        return kind.read(unwrap_value(value))
    except (ValueError, TypeError, KeyError, OverflowError):
        # a mapping may hold secrets
        shown = f"a {type(value).__name__}" if kind.pairs else repr(value)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        clause = f"is {shown}; it must be {kind.allowed}"
        what = f"{where}{field.name} {clause}."
        instead = habit_instead(field.metadata["habits"], value) or value_instead(kind, value)
        raise FieldError(field.name, what, "", instead, clause=clause) from None


def habit_instead(habits: Mapping[str, str], value: Any) -> str:
    """Say what to write instead of a value that other tools take; "" for any other. `device=`
    stands for every value that begins so.
    """
    text = str(value).strip("\"'")
    begins, equals, _ = text.partition("=")
    return habits.get(text, "") or habits.get(f"{begins}{equals}", "")


def value_instead(kind: Kind, value: Any) -> str:
    """Say what to write instead of a value that its kind does not allow; "" if that is not
    known.
    """
    if kind is TEXT and isinstance(value, (list, tuple)):
        return text_instead(cast("Iterable[Any]", value))
    number = str(value).strip()
    if kind is SIZE and is_number(number) and float(number):
        return f"Without a unit it is bytes. Write {number}g, or {number}m."
    if kind is DURATION and is_number(number) and float(number):
        return f"It has no unit. Write {number}m for minutes, or {number}h for hours."
    if kind is DURATION and re.fullmatch(r"\d+:\d+", number):
        return f"Write {number}:00 for hours and minutes, or 0:{number} for minutes and seconds."
    return ""


def text_instead(values: Iterable[Any]) -> str:
    """Say what to write instead of a list of words, where a text is allowed."""
    words = [str(word) for word in values]
    return f"Write {shlex.join(words)!r}." if words else ""


def plain_value(value: Any) -> Any:
    """Return a field's value in the form of JSON."""
    from tao_sdk.model.secrets import Secret, SecretRef

    if isinstance(value, (Secret, SecretRef)):
        return {"secret": value.name if isinstance(value, SecretRef) else ""}
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in cast(Iterable[Any], value)]
    return value


def schema_of(record: type[Any]) -> dict[str, Any]:
    """The JSON Schema properties of a dataclass' fields."""
    return {
        name: {**field.metadata["kind"].schema, "description": field.metadata["help"]}
        for name, field in settings_of(record).items()
    }
