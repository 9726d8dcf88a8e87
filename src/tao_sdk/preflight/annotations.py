"""Annotation files: the number of records in one, and the required fields that they lack.

Foreign input: the memory for it is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

LARGEST = 512_000_000  # bytes of a JSON document
LARGEST_LINE = 16_000_000  # bytes of a line of a JSONL file, of which there may be any number
ENDS = (".json", ".jsonl")
# keys of a document that hold its records; of two that are there, the first counts
RECORD_KEYS = ("images", "records", "samples", "data", "items", "annotations")


class BadAnnotations(ValueError):
    """The file cannot be read as annotations; the text says why."""


@dataclass(frozen=True)
class Annotations:
    """The contents of an annotation file."""

    records: int
    # required field -> the number of the first record without it, from 1
    lacking: Mapping[str, int]


def is_annotation_file(path: str) -> bool:
    return path.lower().endswith(ENDS)


def read_annotations(stream: BinaryIO, path: str, fields: Sequence[str] = ()) -> Annotations:
    """The records of a JSON or JSONL file, and which `fields` they lack. Raises BadAnnotations,
    OSError.
    """
    if path.lower().endswith(".jsonl"):
        return examine(read_lines(stream), fields)
    document = read_document(stream)
    if not isinstance(document, dict):
        return examine(as_records(document), fields)
    return examine_document(cast("dict[str, Any]", document), fields)


def read_image_files(stream: BinaryIO) -> Iterator[str]:
    """The paths of the images of a document such as COCO's that stand below the folder of images.
    Raises BadAnnotations, OSError.
    """
    document = read_document(stream)
    images = cast("dict[str, Any]", document).get("images") if isinstance(document, dict) else None
    for image in cast("list[Any]", images) if isinstance(images, list) else []:
        name = cast("dict[str, Any]", image).get("file_name") if isinstance(image, dict) else None
        if isinstance(name, str) and name and not name.startswith(("/", "..")):
            yield name


def read_named_files(stream: BinaryIO, path: str, keys: Sequence[str]) -> Iterator[str]:
    """The paths under one of the keys of a JSON or JSONL file, at any depth, in order; some may
    come twice. Raises BadAnnotations, OSError.
    """
    documents = read_lines(stream) if path.lower().endswith(".jsonl") else [read_document(stream)]
    for document in documents:
        ahead = [document]
        while ahead:
            value = ahead.pop()
            if isinstance(value, dict):
                record = cast("dict[str, Any]", value)
                for key in keys:
                    yield from texts_in(record.get(key))
                ahead += reversed(record.values())
            elif isinstance(value, list):
                ahead += reversed(cast("list[Any]", value))


def texts_in(value: Any) -> Iterator[str]:
    """A text, or the texts of a list."""
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    for item in items:
        if isinstance(item, str) and item:
            yield item


def examine_document(document: Mapping[str, Any], fields: Sequence[str]) -> Annotations:
    """Examine a document such as COCO's, which has lists of records. A field may be a key of the
    document, or a key of every record in one of its lists.
    """
    lists = record_lists(document)
    if not lists:
        raise BadAnnotations("it holds no list of records")
    first, *others = [
        examine(records, [each for each in fields if each not in document]) for records in lists
    ]
    found_elsewhere = {
        name for name in first.lacking for other in others if name not in other.lacking
    }
    lacking = {name: at for name, at in first.lacking.items() if name not in found_elsewhere}
    return Annotations(first.records, lacking)


def record_lists(document: Mapping[str, Any]) -> list[Sequence[Any]]:
    """The lists of mappings in a document. The list that is counted comes first."""
    keys = [*(key for key in RECORD_KEYS if key in document), *document]
    lists = [document[key] for key in dict.fromkeys(keys)]
    return [cast("list[Any]", each) for each in lists if holds_mappings(each)]


def holds_mappings(value: Any) -> bool:
    """True for a list whose first item is a mapping, and for an empty one."""
    if not isinstance(value, list):
        return False
    return all(isinstance(item, dict) for item in cast("list[Any]", value)[:1])


def as_records(document: Any) -> Sequence[Any]:
    if isinstance(document, list):
        return cast("list[Any]", document)
    raise BadAnnotations("it holds neither a list nor a mapping")


def examine(records: Iterable[Any], fields: Sequence[str]) -> Annotations:
    count = 0
    lacking: dict[str, int] = {}
    for record in records:
        count += 1
        if not isinstance(record, dict):
            raise BadAnnotations(f"record {count} is not a mapping")
        for name in fields:
            if name not in lacking and is_empty(cast("dict[str, Any]", record).get(name)):
                lacking[name] = count
    return Annotations(count, lacking)


def is_empty(value: Any) -> bool:
    return value is None or value == ""


def read_document(stream: BinaryIO) -> Any:
    data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise BadAnnotations(
            f"it is larger than {LARGEST // 1_000_000} MB; JSONL of any size can be read"
        )
    return parse(data)


def read_lines(stream: BinaryIO) -> Iterator[Any]:
    number = 0
    while line := stream.readline(LARGEST_LINE + 1):
        number += 1
        if len(line) > LARGEST_LINE:
            raise BadAnnotations(f"line {number} is longer than {LARGEST_LINE // 1_000_000} MB")
        if line.strip():
            yield parse(line, f" in line {number}")


def parse(data: bytes, where: str = "") -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise BadAnnotations(f"this is not UTF-8{where}") from None
    except json.JSONDecodeError as error:
        where = where or f" at {error.lineno}:{error.colno}"
        raise BadAnnotations(f"this is not JSON{where}: {error.msg}") from None
    except RecursionError:
        raise BadAnnotations(f"it is nested too deeply{where}") from None
    except (ValueError, MemoryError) as error:
        raise BadAnnotations(f"it cannot be read{where}: {error}") from None
