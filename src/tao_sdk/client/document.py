"""Documents: a YAML or JSON file as values that know where they stand.

Here: reading and its traps (1e-05 is a number, `on` as a key is a text, a key is given once). Not
here: what the values mean (job_file.py).
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tao_sdk.model.errors import SpecError
from tao_sdk.model.lazy_pattern import lazy_compile
from tao_sdk.model.units import format_size

LARGEST = 16_000_000  # bytes; a spec of 4 MB is the largest anybody has asked for
MOST_VALUES = 1_000_000  # with every alias counted as often as it is used
DEEPEST = 100
FEW = 5  # files of a folder that are named where none is like the one that was asked for
SUFFIXES = frozenset({".yaml", ".yml", ".json"})
BEYOND_UNICODE = lazy_compile(r"\\U(?!000|0010)[0-9a-fA-F]{8}")
# the reader without libyaml raises this for it
NO_CHARACTER = (ValueError, OverflowError)
ADDRESS = lazy_compile(r"\w+:/")  # http://host, once it was a path


@dataclass(frozen=True)
class Place:
    """The position of a value: `job.yaml:3:5`, as editors and compilers write it; without a line,
    the whole file.
    """

    path: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if self.line:
            return f"{self.path}:{self.line}:{self.column}"
        return self.path


class DocumentError(SpecError):
    """A file that cannot be used as it is written. The text starts with the place of the
    mistake.
    """

    code = "job_file.invalid"

    def __init__(
        self, place: Place, what: str, why: str = "", next: str = "", command: str = ""
    ) -> None:
        super().__init__(f"{place}: {what}", why, next, command)
        self.place = place
        self.meant = ""  # the known key that an unknown one is like
        self.key = ""  # the key of a job file that is wrong, once its reader has said so

    def to_json(self) -> dict[str, Any]:
        """The error object of `--json`, with the place of the mistake; a line of 0 is the whole
        file.
        """
        at = {
            "file": self.place.path,
            "line": self.place.line,
            "column": self.place.column,
            "key": self.key,
        }
        return {**super().to_json(), **at}


SHAPES = {
    "dict": "a mapping",
    "list": "a list",
    "str": "a text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "NoneType": "empty",
}

if TYPE_CHECKING:
    Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Value:
    """One value of a document. `data` of a list or a mapping holds Values; `text` is a scalar as
    written.
    """

    place: Place
    data: Scalar | list[Value] | dict[str, Value]
    text: str = ""
    keys: dict[str, Place] = field(default_factory=lambda: {})
    weight: int = 1

    @property
    def shape(self) -> str:
        """The kind of the value, in a word for people."""
        return SHAPES[type(self.data).__name__]

    @property
    def mapping(self) -> dict[str, Value]:
        assert isinstance(self.data, dict)
        return self.data

    def plain(self, as_text: bool = False) -> Any:
        """The value without places; `as_text` leaves scalars as they are written, so that 1.10
        stays 1.10.
        """
        if isinstance(self.data, dict):
            return {key: item.plain(as_text) for key, item in self.data.items()}
        if isinstance(self.data, list):
            return [item.plain(as_text) for item in self.data]
        if as_text and self.data is not None:
            return self.text
        return self.data


def read_document(path: Path) -> Value:
    """The one value that a YAML or JSON file holds. Raises DocumentError with file, line and
    column.
    """
    text = read_text(path)
    if path.suffix == ".json":
        return read_json(text, str(path))
    return compose(text, str(path))


def read_text(path: Path) -> str:
    whole = Place(str(path))
    try:
        with open(path, "rb", opener=without_waiting) as file:
            raw = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise DocumentError(whole, "there is no such file.", "", near_files(path)) from None
    except IsADirectoryError:
        inside = path / "job.yaml"
        found = f": {inside}" if inside.is_file() else "."
        raise DocumentError(whole, "this is a folder.", "", f"Name the file in it{found}") from None
    except OSError as error:
        raise DocumentError(
            whole, f"cannot be read: {error.strerror}.", "", "Check its permissions."
        ) from None
    if len(raw) > LARGEST:
        size = format_size(max(path.stat().st_size, len(raw)))
        raise DocumentError(
            whole,
            f"this file has {size}; {format_size(LARGEST)} is the limit.",
            "",
            "Name large data under inputs.",
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        raise DocumentError(
            position(whole.path, before), "this is not UTF-8 text.", "", "Save the file as UTF-8."
        ) from None


def without_waiting(path: str, flags: int) -> int:
    """Open a file without waiting. A pipe that nobody writes into is empty then; a usual open would
    wait for ever.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def near_files(path: Path) -> str:
    """Advice for a file that is not there: the documents beside it, or the one that was meant."""
    if str(path) == "-":
        return "To read it from a pipe: /dev/stdin."
    if ADDRESS.match(str(path)):
        return "It has to be a file of this machine: fetch it first."
    if not path.parent.is_dir():
        return f"There is no folder {path.parent} either."
    if meant := like_named(path):
        return f"Did you mean {meant}?"
    beside = documents_beside(path)
    if 0 < len(beside) <= FEW:
        return f"Here are: {', '.join(map(str, beside))}."
    return ""


def documents_beside(path: Path) -> list[Path]:
    """The YAML and JSON files in the folder of `path`; none if the folder cannot be read."""
    try:
        return sorted(each for each in path.parent.iterdir() if each.suffix in SUFFIXES)
    except OSError:
        return []


def like_named(path: Path) -> Path | None:
    """The document whose name is most like that of `path`; None if no name is like it."""
    beside = documents_beside(path)
    stems = difflib.get_close_matches(path.stem, [each.stem for each in beside], n=1)
    return next((each for each in beside if each.stem in stems), None)


def position(path: str, before: str) -> Place:
    """The place behind the text `before`."""
    return Place(path, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def read_json(text: str, path: str) -> Value:
    """The value of a JSON text. A program usually writes JSON, so the place of each value is just
    the file.
    """
    whole = Place(path)

    def refuse(constant: str) -> None:
        raise not_finite(constant, whole)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
            raise DocumentError(
                whole, f"{twice} is given twice in one object.", "", "Leave one of them out."
            )
        return found

    try:
        return value_of(json.loads(text, object_pairs_hook=once, parse_constant=refuse), whole)
    except json.JSONDecodeError as error:
        raise DocumentError(
            Place(path, error.lineno, error.colno),
            f"this is not JSON: {error.msg}.",
            "",
            "Mend it there.",
        ) from None
    except RecursionError:
        raise too_deep(whole) from None


def value_of(data: Any, place: Place, depth: int = 0) -> Value:
    """Plain data as a Value, all of it at one place."""
    if depth > DEEPEST:
        raise too_deep(place)
    if isinstance(data, dict):
        items = {
            key: value_of(item, place, depth + 1)
            for key, item in cast("dict[str, Any]", data).items()
        }
        return Value(place, items, keys=dict.fromkeys(items, place))
    if isinstance(data, list):
        return Value(place, [value_of(item, place, depth + 1) for item in cast("list[Any]", data)])
    if isinstance(data, float) and not math.isfinite(data):
        raise not_finite(str(data), place)
    return Value(place, data, data if isinstance(data, str) else json.dumps(data))


def not_finite(text: str, place: Place) -> DocumentError:
    return DocumentError(
        place,
        f"{text} is not a finite number.",
        "No config file can hold one.",
        "Leave it out, or write a number.",
    )


def too_deep(place: Place) -> DocumentError:
    return DocumentError(
        place, f"this is nested more than {DEEPEST} levels deep.", "", "Write it flatter."
    )


def compose(text: str, path: str) -> Value:
    """The value that a YAML text holds; an empty text holds None."""
    import yaml

    builder = Builder(path)
    try:
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        events = cast("Iterator[Any]", yaml.parse(text, loader))  # pyright: ignore[reportUnknownMemberType]
        for event in events:
            builder.take(event)
    except DocumentError:
        raise
    except yaml.MarkedYAMLError as error:
        raise syntax_error(error, text, path) from None
    except yaml.reader.ReaderError as error:
        place = position(path, text[: error.position])
        raise DocumentError(
            place,
            f"this character cannot be here: {code_point(error.character)}.",
            "",
            "Remove it.",
        ) from None
    except NO_CHARACTER:
        raise unknown_character(text, path) from None
    if builder.documents:
        return builder.documents[0]
    return Value(Place(path, 1, 1), None)


def unknown_character(text: str, path: str) -> DocumentError:
    escape = BEYOND_UNICODE.search(text)
    before = text[: escape.start()] if escape else ""
    return DocumentError(
        position(path, before),
        "this is not YAML: an escape stands for no character.",
        "",
        "Write the character itself, or put the text in single quotes.",
    )


def code_point(character: str | int) -> str:
    return f"U+{character if isinstance(character, int) else ord(character):04X}"


# The parser's message -> advice for people.
REMEDIES = {
    "mapping values are not allowed": "Put a text that holds a colon and a space in quotes.",
    "could not find expected ':'": "Write `key: value`.",
    "did not find expected key": (
        "Indent it like its neighbours, or put the text before it in quotes."
    ),
    "did not find expected ',' or": "A [ or { is not closed.",
    "did not find expected alphabetic or numeric": "Put a text that starts with * or & in quotes.",
    "that cannot start any token": "Put a text that starts with this character in quotes.",
    "unexpected end of stream": "A quote is not closed.",
}


def syntax_error(error: Any, text: str, path: str) -> DocumentError:
    mark = error.problem_mark or error.context_mark
    place = Place(path, mark.line + 1, mark.column + 1)
    line: str = [*text.splitlines(), ""][min(int(mark.line), text.count("\n"))]
    if "\t" in line[: mark.column + 1] and not line[: mark.column].strip():
        return DocumentError(
            place,
            "a tab indents this line.",
            "YAML takes spaces only.",
            "Replace the tab by spaces.",
        )
    problem = " ".join(str(part) for part in (error.context, error.problem) if part)
    remedy = next((remedy for words, remedy in REMEDIES.items() if words in problem), "")
    return DocumentError(place, f"this is not YAML: {problem}.", "", remedy)


@dataclass
class Branch:
    """A list or a mapping that is not closed yet; a mapping's keys and values take turns in
    `items`.
    """

    place: Place
    anchor: str | None
    is_mapping: bool
    items: list[Value] = field(default_factory=lambda: [])


class Builder:
    """Builds Values from the parser's events. It has no recursion, so that the depth can be limited
    here.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.open: list[Branch] = []
        self.anchors: dict[str, Value | None] = {}
        self.documents: list[Value] = []

    def take(self, event: Any) -> None:
        name = type(event).__name__
        place = Place(self.path, event.start_mark.line + 1, event.start_mark.column + 1)
        if name == "ScalarEvent":
            self.add(scalar(event, place), event.anchor)
        elif name == "AliasEvent":
            self.add(self.alias(event.anchor, place), None)
        elif name in ("MappingStartEvent", "SequenceStartEvent"):
            self.begin(event, place, name == "MappingStartEvent")
        elif name in ("MappingEndEvent", "SequenceEndEvent"):
            branch = self.open.pop()
            self.add(mapping(branch) if branch.is_mapping else sequence(branch), branch.anchor)
        elif name == "DocumentStartEvent" and self.documents:
            raise DocumentError(
                place, "a second document starts here.", "A file holds one.", "Remove the line ---."
            )

    def begin(self, event: Any, place: Place, is_mapping: bool) -> None:
        if event.tag and not event.tag.endswith((":map", ":seq")):
            raise DocumentError(
                place, f"the tag {event.tag} has no meaning here.", "", "Leave it out."
            )
        if len(self.open) >= DEEPEST:
            raise too_deep(place)
        if event.anchor:
            self.anchors[event.anchor] = None
        self.open.append(Branch(place, event.anchor, is_mapping))

    def alias(self, name: str, place: Place) -> Value:
        if name not in self.anchors:
            raise DocumentError(
                place,
                f"*{name} refers to nothing above.",
                "",
                f"Put &{name} before what is meant, or the text in quotes.",
            )
        value = self.anchors[name]
        if value is None:
            raise DocumentError(
                place,
                f"*{name} refers to what it is in.",
                "The value would have no end.",
                "Write the value out there.",
            )
        return value

    def add(self, value: Value, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = value
        if value.weight > MOST_VALUES:
            raise DocumentError(
                value.place,
                f"this holds more than {MOST_VALUES:,} values.",
                "Aliases count as often as they are used.",
                "Split the file.",
            )
        (self.open[-1].items if self.open else self.documents).append(value)


def sequence(branch: Branch) -> Value:
    return Value(branch.place, branch.items, weight=1 + sum(item.weight for item in branch.items))


def mapping(branch: Branch) -> Value:
    items: dict[str, Value] = {}
    keys: dict[str, Place] = {}
    merged: dict[str, Value] = {}
    for index in range(0, len(branch.items), 2):
        key, value = branch.items[index : index + 2]
        if isinstance(key.data, (dict, list)):
            raise DocumentError(
                key.place, f"a key is {key.shape}.", "A key is a text.", "Quote it."
            )
        if key.text == "<<":
            for each in merge(value):
                merged = {**each, **merged}
            continue
        if key.text in keys:
            raise DocumentError(
                key.place,
                f"{key.text} is given a second time.",
                f"It stands in line {keys[key.text].line} already.",
                "Remove one of them.",
            )
        items[key.text], keys[key.text] = value, key.place
    whole = {**merged, **items}
    return Value(branch.place, whole, "", keys, 1 + sum(value.weight for value in whole.values()))


def merge(value: Value) -> Iterator[dict[str, Value]]:
    """The mappings that `<<:` takes over. Keys written beside it win, and of several mappings the
    first.
    """
    for each in value.data if isinstance(value.data, list) else [value]:
        if not isinstance(each.data, dict):
            raise DocumentError(
                each.place,
                f"<< takes over a mapping; this is {each.shape}.",
                "",
                "Name a mapping there.",
            )
        yield each.data


NULLS = frozenset({"", "~", "null", "Null", "NULL"})
TRUE_OR_FALSE = {
    word: truth
    for truth, words in {True: ("yes", "true", "on"), False: ("no", "false", "off")}.items()
    for plain in words
    for word in (plain, plain.capitalize(), plain.upper())
}
INTEGER = lazy_compile(r"[-+]?(?:0|[1-9][0-9_]*)", re.ASCII)
BASED = lazy_compile(r"([-+]?)0(?:x([0-9a-fA-F_]+)|b([01_]+)|o?([0-7_]+))", re.ASCII)
FLOAT = lazy_compile(
    r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?", re.ASCII
)
NOT_FINITE = lazy_compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)


def scalar(event: Any, place: Place) -> Value:
    """A scalar as YAML 1.1 reads it, with three differences: 1e-05 is a number; 4:30:00 and
    2026-01-01 are texts.
    """
    text: str = event.value
    if event.tag in (None, "tag:yaml.org,2002:str", "!"):
        quoted = not event.implicit[0] or event.tag is not None
        return Value(place, text if quoted else resolve(text, place), text)
    kinds = {"int": int, "float": float, "bool": TRUE_OR_FALSE.__getitem__, "null": lambda _: None}  # pyright: ignore[reportUnknownVariableType, reportUnknownLambdaType]
    try:
        data: Scalar = kinds[event.tag.replace("tag:yaml.org,2002:", "")](text)  # pyright: ignore[reportUnknownVariableType]
    except (KeyError, ValueError):
        raise DocumentError(
            place, f"the tag {event.tag} has no meaning here.", "", "Leave it out."
        ) from None
    return Value(place, data, text)


def resolve(text: str, place: Place) -> Scalar:
    """The value of a scalar without quotes."""
    if text in NULLS:
        return None
    if text in TRUE_OR_FALSE:
        return TRUE_OR_FALSE[text]
    if INTEGER.fullmatch(text):
        return integer(text.replace("_", ""), 10, place)
    if match := BASED.fullmatch(text):
        base = next(base for base, group in ((16, 2), (2, 3), (8, 4)) if match[group])
        return integer(match[1] + match[match.lastindex or 0].replace("_", ""), base, place)
    if NOT_FINITE.fullmatch(text) or (
        FLOAT.fullmatch(text) and not math.isfinite(float(text.replace("_", "")))
    ):
        raise not_finite(text, place)
    if FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    return text


def integer(digits: str, base: int, place: Place) -> int:
    if len(digits) > 1000:
        raise DocumentError(
            place, f"this number has {len(digits)} digits.", "", "Put it in quotes if it is a text."
        )
    return int(digits, base)
