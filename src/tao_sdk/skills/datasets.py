"""Datasets: from the user's data (`train: s3://bucket/coco`) to values of a spec, as the skill's
data sources say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tao_sdk.model.fields import FieldError
from tao_sdk.skills.skill import DataSource

FORMAT = "format"
ANY_FORMAT = "*"
SOURCE_ENDS = ("", "_dataset", "_datasets")
ANNOTATION = re.compile(r"\{(\w+)_annotation\}")
ANNOTATION_END = "_annotation"
# other tools' form of an address -> the form here
OTHER_SCHEMES = {"aws://": "s3://", "hf://": "hf_model://"}

DataGiven = Mapping[str, "str | Sequence[str]"]


IsThere = Callable[[str], "bool | None"]  # takes an address; None if it cannot look


def is_here(address: str) -> bool | None:
    """True if the file is on this machine; None if even its dataset is not."""
    path = Path(address)
    if "://" in address or not path.parent.is_dir():
        return None
    return path.exists()


@dataclass(frozen=True, slots=True)
class Datasets:
    """The `data` given by the user, and its format. Choices that were made without looking at the
    files are added to `notes`.
    """

    given: DataGiven
    format: str = ""
    is_there: IsThere = is_here
    notes: list[str] = field(default_factory=list[str])

    def roots(self, source: str) -> list[str]:
        """The datasets of a source such as train_datasets, which may be called `train`."""
        for name, value in self.given.items():
            if source in {name + end for end in SOURCE_ENDS}:
                return [checked_address(name, each) for each in as_list(value)]
        return []

    def annotation(self, source: str) -> str:
        """The annotation file of `train_dataset`; "" if none was given."""
        names = (source + ANNOTATION_END, source.removesuffix("_dataset") + ANNOTATION_END)
        given = (self.given[name] for name in names if name in self.given)
        return next((as_list(value)[0] for value in given if as_list(value)), "")


def refuse_unknown_data(given: DataGiven, sources: Mapping[str, DataSource], title: str) -> None:
    """Raise SpecError for a dataset that the action does not read: it would be left out."""
    read = {source.source for source in sources.values()}
    known = sorted({short_name(source) for source in read})
    for name in given:
        base = name.removesuffix(ANNOTATION_END)
        if name != FORMAT and not {base + end for end in SOURCE_ENDS} & read:
            hint = (
                f"It reads: {', '.join(known)}." if known else "Set the keys of its spec instead."
            )
            raise FieldError(f"data.{name}", f"{title} reads no dataset {name!r}.", "", hint)


def short_name(source: str) -> str:
    """`train` of train_datasets."""
    return source.removesuffix("s").removesuffix("_dataset")


def data_values(
    datasets: Datasets, sources: Mapping[str, DataSource], title: str
) -> Iterator[tuple[str, Any]]:
    """The keys of the spec and their values, for every source that has a dataset."""
    for key, source in sources.items():
        roots = datasets.roots(source.source)
        if len(roots) > 1 and not source.multiple_sources:
            raise FieldError(
                f"data.{short_name(source.source)}",
                f"{title} takes one dataset as {short_name(source.source)}, not {len(roots)}.",
                f"{key} has one value.",
                "Give one of them.",
            )
        value = value_of_source(datasets, source, roots)
        if value is not None:
            yield key, value


def value_of_source(datasets: Datasets, source: DataSource, roots: Sequence[str]) -> Any:
    """The value of a source. None if there is no dataset, or no file of it is known."""
    if not roots:
        return None
    if source.mapping:
        return [mapped_files(source, root) for root in roots]
    paths = [path_of_source(datasets, source, root) for root in roots]
    values = [
        joined(root, path) for root, path in zip(roots, paths, strict=True) if path is not None
    ]
    if source.optional:
        values = [value for value in values if is_here(value) is not False]
    if not values:
        return None
    return values if source.as_list or source.multiple_sources else values[0]


def mapped_files(source: DataSource, root: str) -> dict[str, str]:
    """The files of one dataset by their keys. Optional files may not be there, so they are left to
    the user.
    """
    files = {name: file for name, file in source.mapping.items() if file.path and not file.optional}
    return {name: joined(root, file.path) for name, file in files.items()}


def path_of_source(datasets: Datasets, source: DataSource, root: str) -> str | None:
    """The path below the dataset, with the names of annotation files put in."""
    path = path_by_format(datasets, source, root) if source.path_from_format else source.path
    if path is None:
        return None
    for match in ANNOTATION.finditer(path):
        annotation = datasets.annotation(match[1])
        if not annotation:
            return None
        path = path.replace(match[0], annotation)
    return path


def path_by_format(datasets: Datasets, source: DataSource, root: str) -> str | None:
    """The file for the data's format. If there are several, the first that is there."""
    paths = source.path_from_format
    candidates = paths.get(datasets.format) or paths.get(ANY_FORMAT) or ()
    if len(candidates) > 1:
        return first_there(datasets, source, root, candidates)
    return next(iter(candidates), source.path)


def first_there(
    datasets: Datasets, source: DataSource, root: str, candidates: Sequence[str]
) -> str:
    """The first file that is there. If that cannot be seen, the first one, with a note."""
    seen = "has none of"
    for name in candidates:
        there = datasets.is_there(joined(root, name))
        if there:
            return name
        if there is None:
            seen = "was not looked at for"
            break
    names = ", ".join(candidates)
    datasets.notes.append(
        f"{root} {seen} {names}: {source.key} is {candidates[0]}. Set it for another."
    )
    return candidates[0]


def joined(root: str, path: str) -> str:
    """The address of a file of a dataset. A file that is an address or absolute already stays as it
    is.
    """
    if "://" in path or path.startswith("/"):
        return path
    base = root if root.strip("/") == "" or root.endswith("://") else root.rstrip("/")
    return f"{base.rstrip('/')}/{path}" if path else base


def checked_address(name: str, address: str) -> str:
    """The address. Raises SpecError if it is empty, or written as other tools write it."""
    for other, ours in OTHER_SCHEMES.items():
        if address.startswith(other):
            meant = ours + address.removeprefix(other)
            what = f"data {name}: {other} is no address here."
            raise FieldError(f"data.{name}", what, "", f"Write {meant}")
    if not address.strip():
        advice = "Write an address such as s3://bucket/coco."
        raise FieldError(f"data.{name}", f"data {name} is empty.", "", advice)
    return address


def as_list(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
