"""Requirements: a launch's needs of data and GPUs, as they are typed.

Every reader raises ValueError with one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tao_sdk.model.machines import read_arch


@dataclass(frozen=True)
class Dataset:
    """A file or folder that the job needs, under the name that people give it."""

    label: str
    address: str  # a path of the platform, or an address such as s3://bucket/key


@dataclass(frozen=True)
class BatchLimit:
    """The number of records of one step, and the number of shards over which records are spread."""

    batch: int
    shards: int


@dataclass(frozen=True)
class ArchList:
    """The GPU architectures that an image is built for."""

    image: str
    archs: tuple[str, ...]  # such as sm_80


@dataclass(frozen=True)
class GpuNeeds:
    """The GPUs that are asked for. 0 and () ask for nothing."""

    count: int = 0
    memory_gb: float = 0.0  # for each GPU, in 10^9 bytes
    archs: tuple[ArchList, ...] = ()  # each of which has to have the GPU
    driver: str = ""  # the oldest one

    @property
    def any(self) -> bool:
        return bool(self.count or self.memory_gb or self.archs or self.driver)


@dataclass(frozen=True)
class DataNeeds:
    """The needs that annotation files have to meet, by label."""

    fields: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {})
    batches: Mapping[str, tuple[BatchLimit, ...]] = field(default_factory=lambda: {})

    @property
    def labels(self) -> tuple[str, ...]:
        return (*self.fields, *(label for label in self.batches if label not in self.fields))


def read_needs(fields: Sequence[str], batches: Sequence[str]) -> DataNeeds:
    """Read the needs typed as LABEL=FIELD[,FIELD] and as LABEL=BATCH,SHARDS."""
    fields_of: dict[str, tuple[str, ...]] = {}
    for label, names in map(read_json_fields, fields):
        fields_of[label] = (*fields_of.get(label, ()), *names)
    limits_of: dict[str, tuple[BatchLimit, ...]] = {}
    for label, limit in map(read_batch_limit, batches):
        limits_of[label] = (*limits_of.get(label, ()), limit)
    return DataNeeds(fields_of, limits_of)


def refuse_unknown_labels(needs: DataNeeds, known: Iterable[str], what: str) -> None:
    """Raise ValueError for a need whose label no dataset has."""
    labels = list(known)
    for label in needs.labels:
        if label not in labels:
            raise ValueError(f"{label!r} names no {what}: {', '.join(labels) or 'there is none'}")


def split_label(text: str, form: str) -> tuple[str, str]:
    label, equals, value = text.partition("=")
    if not (label and equals and value):
        raise ValueError(f"{text!r} is not {form}")
    return label, value


def read_dataset(text: str) -> Dataset:
    return Dataset(*split_label(text, "LABEL=PATH"))


def read_json_fields(text: str) -> tuple[str, tuple[str, ...]]:
    form = "LABEL=FIELD[,FIELD]"
    label, value = split_label(text, form)
    names = tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise ValueError(f"{text!r} is not {form}")
    return label, names


def read_batch_limit(text: str) -> tuple[str, BatchLimit]:
    form = "LABEL=BATCH,SHARDS, both of them 1 or more"
    label, value = split_label(text, form)
    numbers = [number.strip() for number in value.split(",")]
    if len(numbers) != 2 or not all(re.fullmatch(r"0*[1-9]\d{0,8}", each) for each in numbers):
        raise ValueError(f"{text!r} is not {form}")
    return label, BatchLimit(*map(int, numbers))


def read_arch_list(text: str) -> ArchList:
    """Read NAME=sm_80,sm_90: the name of the list's owner, and the architectures."""
    name, value = split_label(text, "NAME=sm_80[,sm_90]")
    return ArchList(name, tuple(map(read_arch, value.split(","))))


def same_family(arch: str, other: str) -> bool:
    """sm_90 and sm_90a are of one family."""
    return arch.rstrip("abcdefghijklmnopqrstuvwxyz") == other.rstrip("abcdefghijklmnopqrstuvwxyz")
