"""What is read of an annotation file, and what a bad one gets."""

from __future__ import annotations

import io
import json

import pytest

from tao_sdk.preflight import annotations
from tao_sdk.preflight.annotations import Annotations, BadAnnotations, read_annotations


def read(text: str | bytes, *fields: str, path: str = "a.json") -> Annotations:
    data = text.encode() if isinstance(text, str) else text
    return read_annotations(io.BytesIO(data), path, fields)


@pytest.mark.parametrize(
    ("text", "path", "records"),
    [
        ("[{}, {}]", "a.json", 2),
        ("[]", "a.json", 0),
        ('{"id": 1}\n\n{"id": 2}\n', "a.jsonl", 2),
        ('{"images": [{}, {}], "annotations": [{}, {}, {}]}', "a.JSON", 2),
        ('{"clips": [{}], "info": {}}', "a.json", 1),
        ("\ufeff[{}]", "a.json", 1),
    ],
)
def test_records_are_counted(text: str, path: str, records: int) -> None:
    assert read(text, path=path).records == records


def test_a_field_has_to_be_in_every_record_and_not_empty() -> None:
    text = '[{"fps": 2, "id": 0}, {"fps": null, "id": 1}, {"id": 2}]'
    assert read(text, "fps", "id").lacking == {"fps": 2}


def test_a_field_of_a_document_may_be_in_any_of_its_lists() -> None:
    document = {"images": [{"file_name": "a"}], "annotations": [{"bbox": 1}], "info": {}}
    lacking = read(json.dumps(document), "bbox", "file_name", "info", "none").lacking
    assert lacking == {"none": 1}


@pytest.mark.parametrize(
    ("text", "path", "why"),
    [
        (b"\xff\xfe", "a.json", "not UTF-8"),
        ("[{}", "a.json", "not JSON at 1:4"),
        ("{}\n{", "a.jsonl", "not JSON in line 2"),
        ("3", "a.json", "neither a list nor a mapping"),
        ("[3]", "a.json", "record 1 is not a mapping"),
        ('{"a": 1}', "a.json", "holds no list of records"),
        ("[" * 200_000, "a.json", "nested too deeply"),
        ("", "a.json", "not JSON"),
    ],
)
def test_what_is_no_annotation_file_is_refused(text: str | bytes, path: str, why: str) -> None:
    with pytest.raises(BadAnnotations, match=why):
        read(text, path=path)


def test_what_is_held_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annotations, "LARGEST", 10)
    monkeypatch.setattr(annotations, "LARGEST_LINE", 10)
    with pytest.raises(BadAnnotations, match="larger than"):
        read("[{}, {}, {}]")
    with pytest.raises(BadAnnotations, match="line 2 is longer"):
        read('{}\n{"a": "aaaaaaaaaa"}\n', path="a.jsonl")
    assert read("{}\n" * 20, path="a.jsonl").records == 20
