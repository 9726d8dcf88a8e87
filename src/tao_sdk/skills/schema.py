"""Checks a spec against the JSON schema of its action, as TAO writes them: with types of its own,
and limits that may be the text "inf".
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tao_sdk.model.fields import FieldError
from tao_sdk.skills.bank_file import LARGEST_SCHEMA, read_bank_document, require_mapping
from tao_sdk.skills.skill import Skill
from tao_sdk.skills.spec_tree import UNSET

LIKE = 0.8  # the similarity from which a key counts as a mistyped one
# A pattern is a stranger's: what could search for hours is not searched.
LONGEST_PATTERN, LONGEST_TEXT, MOST_REPEATS = 200, 200, 4
REPEATS = re.compile(r"[*+?{]")
REPEATED_GROUP = re.compile(r"\)\s*[*+{]|\\\d")

Json = Mapping[str, Any]


def is_whole(value: Any) -> bool:
    return is_number(value) and float(value).is_integer()


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


WHOLE: tuple[str, Callable[[Any], bool]] = ("a whole number", is_whole)
NUMBER: tuple[str, Callable[[Any], bool]] = ("a number", is_number)
TRUTH: tuple[str, Callable[[Any], bool]] = ("true or false", lambda value: isinstance(value, bool))
TEXT: tuple[str, Callable[[Any], bool]] = ("a text", lambda value: isinstance(value, str))
LIST: tuple[str, Callable[[Any], bool]] = ("a list", is_list)
MAPPING: tuple[str, Callable[[Any], bool]] = ("a mapping", lambda value: isinstance(value, dict))
# A type that is not listed, such as categorical, allows any value: its enum says which.
TYPES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("int", "integer", "ordered_int"), WHOLE),
    **dict.fromkeys(("float", "number"), NUMBER),
    **dict.fromkeys(("bool", "boolean"), TRUTH),
    "string": TEXT,
    **dict.fromkeys(("list", "array", "list_2", "list_3", "list_1_backbone", "subset_list"), LIST),
    "object": MAPPING,
}


@dataclass
class Checked:
    """The errors and the warnings of a spec."""

    errors: list[FieldError] = field(default_factory=list[FieldError])
    warnings: list[str] = field(default_factory=list[str])

    def refuse(self, key: str, clause: str, next: str) -> None:
        self.errors.append(FieldError(key, f"{key} {clause}.", "As the schema says.", next))


def read_schema(root: Path, skill: Skill, action: str) -> Json | None:
    """The schema of an action; None if the bank has none. Raises SkillError."""
    path = skill.folder / "schemas" / f"{action}.schema.json"
    if not path.is_file():
        return None
    document = read_bank_document(root, path, LARGEST_SCHEMA)
    require_mapping(document, path, "a schema")
    return cast(Json, document.plain())


def check_spec(schema: Json, tree: Mapping[str, Any]) -> Checked:
    """Everything in the spec that the schema does not allow."""
    checked = Checked()
    check_mapping(schema, tree, "", checked)
    return checked


def check_mapping(schema: Json, tree: Mapping[str, Any], above: str, checked: Checked) -> None:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return
    known = cast("dict[str, Any]", properties)
    for name, value in tree.items():
        key = f"{above}.{name}" if above else name
        if name not in known:
            tell_unknown(name, key, known, checked)
        elif isinstance(known[name], dict):
            check_value(cast(Json, known[name]), value, key, checked)


def tell_unknown(name: str, key: str, known: Mapping[str, Any], checked: Checked) -> None:
    """Report an unknown key. A key that is nearly another is an error; a new one may be of a newer
    program.
    """
    near = difflib.get_close_matches(name, known, n=1, cutoff=LIKE)
    if near:
        meant = key.removesuffix(name) + near[0]
        checked.refuse(key, "is no key of this spec", f"Did you mean {meant}?")
    else:
        checked.warnings.append(f"{key} is not in the schema.")


def check_value(schema: Json, value: Any, key: str, checked: Checked) -> None:
    """Check one value. An empty value is filled in later, or left to the program. The schema's own
    default is right, also outside its limits: TAO has such defaults for values that are not set.
    """
    if value in (None, "", UNSET) or is_default(schema, value):
        return
    for clause, next in mistakes_of(schema, value):
        checked.refuse(key, clause, next)
        return
    if isinstance(value, dict):
        check_mapping(schema, cast("dict[str, Any]", value), key, checked)


def is_default(schema: Json, value: Any) -> bool:
    """True for the schema's default. True and 1 are two values."""
    default = schema.get("default")
    return value == default and isinstance(value, bool) == isinstance(default, bool)


def mistakes_of(schema: Json, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the mistakes in a value, each with advice on what to write."""
    shown = repr(value)[:80]
    words, allows = TYPES.get(str(schema.get("type")), ("", always))
    if not allows(value):
        yield f"is {shown}; it must be {words}", f"Write {words}."
    if not in_enum(schema, value):
        options = ", ".join(map(str, schema["enum"]))[:200]
        yield f"is {shown}", f"It must be one of {options}."
    if is_number(value):
        yield from limit_mistakes(schema, value)
    if isinstance(value, str) and not fits_pattern(schema.get("pattern"), value):
        yield f"is {shown}", f"It must match {schema['pattern']}"


def always(_: Any) -> bool:
    return True


def in_enum(schema: Json, value: Any) -> bool:
    allowed = schema.get("enum")
    if not isinstance(allowed, list) or isinstance(value, (list, dict)):
        return True
    return value in allowed


def limit_mistakes(schema: Json, value: float) -> Iterator[tuple[str, str]]:
    least, most = limit(schema.get("minimum")), limit(schema.get("maximum"))
    if least is not None and value < least:
        yield f"is {value}, below {least:g}", f"Write {least:g} or more."
    if most is not None and value > most:
        yield f"is {value}, above {most:g}", f"Write {most:g} or less."


def limit(value: Any) -> float | None:
    """A number, also as the text "inf"; None if it is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number


def fits_pattern(pattern: Any, text: str) -> bool:
    """True if the text fits. True also without a valid pattern, or if the search could take too
    long.
    """
    if not isinstance(pattern, str) or is_slow(pattern) or len(text) > LONGEST_TEXT:
        return True
    try:
        return re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError):
        return True


def is_slow(pattern: str) -> bool:
    repeats = len(REPEATS.findall(pattern))
    too_many = len(pattern) > LONGEST_PATTERN or repeats > MOST_REPEATS
    return too_many or REPEATED_GROUP.search(pattern) is not None
