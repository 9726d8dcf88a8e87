"""Declarations: the allowed attributes of an input or an output, read and checked apart from any
spec.
"""

from __future__ import annotations

import difflib
import posixpath
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from tao_sdk.model.error_field import about_field
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.payload.values import plain_data, short
from tao_sdk.runner.document import Options, Selective

Declared = Mapping[str, object] | Sequence[str] | None

DECLARATION = (
    "type",
    "optional",
    "container_path",
    "extract",
    "extract_to_parent",
    "patterns",
    "selective",
    "uri",
)
# values the program reads itself: nothing to fetch, no place to choose
LITERAL = frozenset({"list", "local_glob", "text"})
KINDS = ("file", "folder", *sorted(LITERAL))


def plain_declared(wanted: Declared, field: str) -> Declared:
    """The same declarations without library types, such as paths."""
    return cast("Declared", plain_data(wanted, field))


def declared_pairs(field: str, wanted: Declared) -> list[tuple[str, Mapping[str, object]]]:
    """Keys with their declarations; the keys of a plain list have an empty one."""
    if wanted is None:
        return []
    if isinstance(wanted, str):
        raise FieldError(
            field,
            f"{field} is {wanted!r}.",
            "It has to be a mapping or a list.",
            f"Write [{wanted!r}].",
        )
    if isinstance(wanted, Mapping):
        return [(key, read_attributes(field, key, about)) for key, about in wanted.items()]
    # a program may pass anything
    if not isinstance(wanted, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise FieldError(field, f"{field} is {short(wanted)}.", "It has to be a mapping or a list.")
    return [(key, read_attributes(field, key, None)) for key in wanted]


def read_attributes(field: str, key: object, about: object) -> Mapping[str, object]:
    """The declaration of one key, as attributes. Raises FieldError if it cannot be read."""
    if not isinstance(key, str):
        raise FieldError(field, f"{field} has the key {short(key)}.", "Keys are strings.")
    if isinstance(about, Mapping):
        with about_field(field):
            refuse_misspelt(f"{field}[{key!r}]", cast("Mapping[str, object]", about))
        return cast("Mapping[str, object]", about)
    if about is None or isinstance(about, str):
        return {"type": about or ""}
    raise FieldError(
        field,
        f"{field}[{key!r}] is {short(about)}.",
        "It has to be a type, or a mapping such as {'type': 'folder'}.",
    )


def refuse_misspelt(place: str, about: Mapping[str, object]) -> None:
    """Raise SpecError for a name that is nearly an attribute. Other names are fine: a skill's
    metadata may say more about a value, such as its purpose.
    """
    for name in about:
        if name in DECLARATION:
            continue
        near = difflib.get_close_matches(str(name), DECLARATION, n=1, cutoff=0.75)
        if near:
            raise SpecError(
                f"{place} has {name}.", "It would be ignored.", f"Did you mean {near[0]}?"
            )


def refuse_unknown_type(place: str, about: Mapping[str, object]) -> None:
    """Raise SpecError for an unknown type, or an `optional` that is no bool: it would be taken for
    another.
    """
    kind = about.get("type")
    if kind not in (None, "", *KINDS):
        raise SpecError(f"{place} has the type {short(kind)}.", f"It can be {', '.join(KINDS)}.")
    refuse_not_bool(place, "optional", about.get("optional"))


def refuse_path_as_type(field: str, key: str, about: Mapping[str, object]) -> None:
    """Raise SpecError for an input with a path or an address in the place of its type."""
    kind = about.get("type")
    if not isinstance(kind, str) or kind in KINDS or not looks_like_path(kind):
        return
    raise SpecError(
        f"inputs[{key!r}] is {short(kind)}, which is no type.",
        f"A job with {field} has its paths there: an input names a key of {field}, and a path is "
        "the value of that key.",
        f"Write {field}: {key}: {kind} and inputs: {key}: file (with flags: "
        f"{assignment_flag(field, key, kind)} --inputs {shlex.quote(f'{key}=file')}).",
    )


def looks_like_path(text: str) -> bool:
    return "/" in text or "." in text


def assignment_flag(field: str, key: str, path: str) -> str:
    """The flag that gives a key of specs or args this value."""
    value = shlex.quote(f"{key}={path}")
    if field == "args":
        return f"--args {value}"
    return f"--set {value}"


def read_target(key: str, about: Mapping[str, object]) -> str:
    """The path in the job where an input is to lie; "" if the runner may choose. Raises
    FieldError.
    """
    path = about.get("container_path") or ""
    if isinstance(path, str) and (not path or posixpath.isabs(path)):
        return path
    raise FieldError(
        "inputs",
        f"inputs[{key!r}] has the container_path {short(path)}.",
        "It is an absolute path in the job.",
    )


def read_options(place: str, about: Mapping[str, object]) -> Options:
    """The options for fetching an input, in the runner's format."""
    told = Options()
    extract = extract_option(place, about)
    if extract:
        told["extract"] = extract
    if about.get("patterns"):
        told["patterns"] = read_texts(f"{place} has patterns", about["patterns"])
    if about.get("selective"):
        told["selective"] = read_selective(place, about["selective"])
    return told


def extract_option(place: str, about: Mapping[str, object]) -> str:
    """`parent`, `yes` or `no`; "" if the declaration does not say. Raises SpecError."""
    for name in ("extract", "extract_to_parent"):
        refuse_not_bool(place, name, about.get(name))
    extract, to_parent = about.get("extract"), about.get("extract_to_parent")
    if to_parent and extract is False:
        raise SpecError(
            f"{place} has extract: false and extract_to_parent: true.",
            "One excludes the other.",
            "Leave one of them out.",
        )
    if to_parent:
        return "parent"
    return EXTRACT_WORDS[cast("bool | None", extract)]


def refuse_not_bool(place: str, name: str, value: object) -> None:
    """Raise SpecError for an attribute that is given and is no bool."""
    if value is not None and not isinstance(value, bool):
        raise SpecError(
            f"{place} has {name}: {short(value)}.", "It is true or false.", "Write one of these."
        )


EXTRACT_WORDS = {None: "", True: "yes", False: "no"}
FORMATS = ("json", "jsonl", "csv", "parquet")


def read_selective(place: str, about: object) -> Selective:
    """Read {annotation: key of another input, format: json, keys: [video]}."""
    given: Mapping[str, object] = {}
    if isinstance(about, Mapping):
        given = cast("Mapping[str, object]", about)
    annotation, form = given.get("annotation"), given.get("format", "")
    if not isinstance(annotation, str) or not annotation:
        raise SpecError(
            f"{place} has selective: {short(given or None)}.",
            "It names the input that says which files are wanted.",
            "Write selective: {annotation: dataset.annotation_path, keys: [video]}.",
        )
    if form not in ("", *FORMATS):
        raise SpecError(
            f"{place} has selective.format: {short(form)}.",
            f"It can be {', '.join(FORMATS)}.",
        )
    keys = read_texts(f"{place} has selective.keys", given.get("keys") or ["video"])
    return Selective(annotation=annotation, format=cast(str, form), keys=keys)


def is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def read_texts(what: str, value: object) -> list[str]:
    """A text, or a list of texts, as a list. Raises SpecError with a message that begins with
    `what`.
    """
    items = [value] if isinstance(value, str) else value
    if isinstance(items, Sequence):
        texts = list(cast("Sequence[object]", items))
        if all(map(is_text, texts)):
            return cast("list[str]", texts)
    raise SpecError(f"{what}: {short(value)}.", "It is a list of texts.", "Put it in brackets.")
