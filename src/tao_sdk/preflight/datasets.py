"""Datasets: check that each is there as the platform sees it, and read its annotation file.

A check that could not be made is an error: nothing passes unseen.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, Protocol

from tao_sdk.model.finding import Finding, Severity, error
from tao_sdk.preflight.annotations import (
    Annotations,
    BadAnnotations,
    is_annotation_file,
    read_annotations,
    read_image_files,
    read_named_files,
)
from tao_sdk.preflight.requirements import BatchLimit, DataNeeds, Dataset

LOOKED_AT = 50  # files that an annotation names, each a question to the place
NAMES_READ = 100_000  # the first different ones of them are used


class NotSeen(Exception):
    """A check could not be made: why, and what to do."""

    def __init__(self, why: str, next: str) -> None:
        super().__init__(why)
        self.why, self.next = why, next


@dataclass(frozen=True)
class Seen:
    """The file or folder at an address."""

    is_dir: bool
    is_empty: bool = False


class Place(Protocol):
    """A place where datasets are looked at. All methods raise NotSeen if that cannot be done."""

    def look(self, address: str) -> Seen | None:
        """The file or folder at the address; None if nothing is there."""
        ...

    def open(self, address: str) -> AbstractContextManager[BinaryIO]: ...


def dataset_findings(dataset: Dataset, needs: DataNeeds, place: Place) -> Iterator[Finding]:
    """Findings about a dataset. If nothing is wrong, they say that it is there, with its
    records.
    """
    label, address = dataset.label, dataset.address
    try:
        seen = place.look(address)
        if seen is None:
            yield error(
                "dataset.missing",
                f"{label} is not there: {address}",
                "",
                "Correct the path, or put the data there.",
            )
        elif seen.is_empty:
            yield error("dataset.empty", f"{label} is empty: {address}", "", "Put the data there.")
        elif seen.is_dir or not is_annotation_file(address):
            yield from plain_findings(dataset, needs)
        else:
            yield from annotation_findings(dataset, needs, place)
    except NotSeen as unseen:
        yield not_seen(dataset, unseen)


def not_seen(dataset: Dataset, unseen: NotSeen) -> Finding:
    what = f"{dataset.label} could not be checked: {dataset.address}"
    return error("dataset.not_seen", what, unseen.why, unseen.next)


def plain_findings(dataset: Dataset, needs: DataNeeds) -> Iterator[Finding]:
    """Findings about a folder, or a file without records. Needs about records cannot be checked
    there.
    """
    label, address = dataset.label, dataset.address
    if label in needs.labels:
        yield error(
            "dataset.not_annotations",
            f"The records of {label} could not be checked: {address}",
            "It is not a .json or .jsonl file.",
            f"Name the annotation file: {label}=PATH.json",
        )
    else:
        yield Finding(Severity.OK, "dataset.there", f"{label}: {address}")


def annotation_findings(dataset: Dataset, needs: DataNeeds, place: Place) -> Iterator[Finding]:
    label, address = dataset.label, dataset.address
    try:
        with place.open(address) as stream:
            annotations = read_annotations(stream, address, needs.fields.get(label, ()))
    except BadAnnotations as bad:
        yield error(
            "dataset.unreadable", f"{label} is no annotation file: {address}", f"{bad}.",
            "Correct the file, or name another.",
        )  # fmt: skip
        return
    except OSError as failed:
        why = f"It cannot be read: {failed.strerror or failed}."
        raise NotSeen(why, "See that you may read it.") from None
    problems = list(record_findings(dataset, annotations, needs.batches.get(label, ())))
    yield from problems
    if not problems:
        what = f"{label}: {address} records={annotations.records}"
        yield Finding(Severity.OK, "dataset.records", what)


def media_findings(
    folder: Dataset, annotation: Dataset, keys: Sequence[str], places: tuple[Place, Place]
) -> Iterator[Finding]:
    """Check that the files that an annotation names are in the folder; without `keys`, the files of
    COCO's images. `places` are the annotation's and the folder's. Only the first LOOKED_AT names
    are looked at.
    """
    of_annotation, of_folder = places
    try:
        with of_annotation.open(annotation.address) as stream:
            if keys:
                found = read_named_files(stream, annotation.address, keys)
            else:
                found = read_image_files(stream)
            names = list(islice(dict.fromkeys(islice(found, NAMES_READ)), LOOKED_AT))
        missing = [name for name in names if not is_media_there(folder, name, of_folder)]
    except (BadAnnotations, OSError):
        return  # the findings of the annotation say so
    except NotSeen as unseen:
        yield not_seen(folder, unseen)
        return
    if missing:
        yield error(
            "dataset.media_missing",
            f"{len(missing)} of the first {len(names)} files that {annotation.label} names are not "
            f"in {folder.label}, first {missing[0]}",
            f"They are not below {folder.address}.",
            f"Correct {annotation.label}, or the address of {folder.label}.",
        )
    elif not names and keys:
        yield error(
            "dataset.no_media",
            f"{annotation.label} names no files of {folder.label}: {annotation.address}",
            f"Nothing in it stands under {' or '.join(keys)}.",
            "Correct selective.keys.",
        )
    elif names:
        what = (
            f"{folder.label}: the first {len(names)} files that {annotation.label} names are there"
        )
        yield Finding(Severity.OK, "dataset.media", what)


def is_media_there(folder: Dataset, name: str, place: Place) -> bool:
    """True if the file is in the folder. A path that leads out of the folder is no file of it."""
    below = posixpath.normpath(name)
    if posixpath.isabs(name) or below.split("/")[0] == "..":
        return False
    seen = place.look(f"{folder.address.rstrip('/')}/{below}")
    return seen is not None and not seen.is_dir


def record_findings(
    dataset: Dataset, annotations: Annotations, limits: Sequence[BatchLimit]
) -> Iterator[Finding]:
    label, address = dataset.label, dataset.address
    if not annotations.records:
        yield error(
            "dataset.no_records",
            f"{label} has no records: {address} records=0",
            "",
            "Name the file that has them.",
        )
        return
    for name, record in annotations.lacking.items():
        yield error(
            "dataset.field_missing",
            f"{label} lacks the field {name}: {address} records={annotations.records}",
            f"Record {record} does not have it.",
            f"Add {name} to every record.",
        )
    for limit in limits:
        yield from batch_findings(dataset, annotations.records, limit)


def batch_findings(dataset: Dataset, records: int, limit: BatchLimit) -> Iterator[Finding]:
    """An error if a shard has fewer records than one step takes: the job would train nothing."""
    in_a_shard = records // limit.shards
    if limit.batch <= in_a_shard:
        return
    advice = f"Use a batch of at most {in_a_shard}." if in_a_shard else "Use fewer shards."
    yield error(
        "dataset.batch_too_large",
        f"A batch of {limit.batch} is larger than a shard of {dataset.label}: {dataset.address} "
        f"records={records}",
        f"Over {limit.shards} shards each has {in_a_shard} records: a job would take no step.",
        advice,
    )
