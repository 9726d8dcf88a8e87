"""Reads one file of a bank. Others write banks: the size is bounded, and a file that leads out of
the bank is refused, and so is one that is no plain file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tao_sdk.client.document import (
    DocumentError,
    Place,
    Value,
    compose,
    position,
    read_json,
    without_waiting,
)
from tao_sdk.model.units import format_size
from tao_sdk.skills.errors import SkillError

LARGEST = 1_000_000  # bytes
LARGEST_SCHEMA = 16_000_000  # bytes of a schema, or of the list of all schemas
MOST_VALUES = 50_000  # with every alias counted as often as it is used


def read_bank_document(root: Path, path: Path, largest: int = LARGEST) -> Value:
    """The one value of a YAML or JSON file of the bank at `root`. Raises SkillError."""
    text = read_bank_text(root, path, largest)
    try:
        value = read_json(text, str(path)) if path.suffix == ".json" else compose(text, str(path))
    except DocumentError as error:
        raise SkillError.of_document(error) from None
    if value.weight > MOST_VALUES:
        raise SkillError(
            Place(str(path)),
            f"this holds more than {MOST_VALUES:,} values.",
            "Aliases count as often as they are used.",
            "Remove the aliases, or split the file.",
        )
    return value


def require_mapping(document: Value, path: Path, noun: str) -> None:
    """Raise SkillError for a file whose top is no mapping."""
    if not isinstance(document.data, dict):
        what = f"{noun} is a mapping; this is {document.shape}."
        raise SkillError(Place(str(path)), what, "", "Copy the bank again, whole.")


def read_bank_text(root: Path, path: Path, largest: int = LARGEST) -> str:
    """The text of a file of the bank at `root`. Raises SkillError."""
    raw = read_bank_bytes(root, path, largest)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = position(str(path), raw[: error.start].decode("utf-8", "replace"))
        raise SkillError(place, "this is not UTF-8 text.", "", "Save the file as UTF-8.") from None


def read_bank_bytes(root: Path, path: Path, largest: int = LARGEST) -> bytes:
    """Read at most `largest` bytes of a file; a longer file is an error. Raises SkillError."""
    refuse_outside(root, path)
    whole = Place(str(path))
    try:
        with open(path, "rb", opener=without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SkillError(whole, "this is no plain file.", "", "Put a text file there.")
            raw = file.read(largest + 1)
    except OSError as error:
        next = "Copy the bank again, or check the permissions."
        raise SkillError(whole, f"cannot be read: {error.strerror}.", "", next) from None
    if len(raw) > largest:
        limit = format_size(largest)
        raise SkillError(
            whole, f"this file is larger than {limit}.", "", "Copy the bank again, or shorten it."
        )
    return raw


def refuse_outside(root: Path, path: Path) -> None:
    """Raise SkillError for a path that leads out of the bank, by `..` or by a link."""
    if not is_inside(root, path):
        raise SkillError(
            Place(str(path)),
            "this leads out of the skill bank.",
            f"The bank is {root}.",
            "Put the file itself there.",
        )


def is_inside(root: Path, path: Path) -> bool:
    """True for a path inside the bank. False also for links in a circle."""
    try:
        target = path.resolve()
        return root.resolve() in (target, *target.parents)
    except (OSError, RuntimeError):
        return False
