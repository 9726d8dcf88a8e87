"""Reads the data declarations of a skill: the file and the dataset for each key of the spec, and
the keys that are filled from another job.
"""

from __future__ import annotations

from tao_sdk.skills.node import Node, Reading, is_spec_key
from tao_sdk.skills.skill import DataSource, Download, MappedFile

SOURCE = {
    *("source", "path", "runtime", "list", "multiple_sources", "optional", "path_from_format"),
    *("mapping", "description"),
}
MAPPED = {"path", "optional"}
DOWNLOAD = {"link", "destination_path"}
EXTRACTED_FOLDER = "extracted_folder"
EXAMPLE = "dataset.image_dir"


def read_data_sources(reading: Reading, node: Node | None) -> dict[str, dict[str, DataSource]]:
    """Data sources by action and key."""
    return {
        action: {
            key: read_data_source(reading, key, child)
            for key, child in reading.checked_keys(sources, is_spec_key, EXAMPLE).items()
        }
        for action, sources in reading.mapping(node).items()
    }


def read_data_source(reading: Reading, key: str, node: Node) -> DataSource:
    reading.warn_of_unknown(node, SOURCE)
    has = reading.mapping(node)
    source = reading.text(has.get("source"))
    if not source:
        reading.refuse(node, "has no source.", "Name the dataset, such as source: train_datasets.")
    return DataSource(
        key=key,
        source=source,
        path=read_dataset_path(reading, has.get("path")),
        runtime=reading.choice(has.get("runtime"), (EXTRACTED_FOLDER,)),
        as_list=reading.flag(has.get("list")) or False,
        multiple_sources=reading.flag(has.get("multiple_sources")) or False,
        optional=reading.flag(has.get("optional")) or False,
        path_from_format=read_paths_by_format(reading, has.get("path_from_format")),
        mapping=read_mapped_files(reading, has.get("mapping")),
    )


def read_dataset_path(reading: Reading, node: Node | None) -> str | None:
    """A path below the dataset; None if none is given."""
    if node is None or node.is_empty:
        return None
    path = reading.text(node)
    if path.startswith(("/", "~")) or ".." in path.split("/"):
        reading.refuse(
            node, f"is {path[:80]!r}; it must be below the dataset.", "Write it like images.tar.gz."
        )
        return None
    return path


def read_paths_by_format(reading: Reading, node: Node | None) -> dict[str, tuple[str, ...]]:
    """Format -> the files that it may have. The first file that is there counts; `*` is any other
    format.
    """
    return {
        format: read_candidates(reading, child) for format, child in reading.mapping(node).items()
    }


def read_candidates(reading: Reading, node: Node) -> tuple[str, ...]:
    candidates = reading.list_of(node) if isinstance(node.value.data, list) else [node]
    return tuple(read_dataset_path(reading, each) or "" for each in candidates)


def read_mapped_files(reading: Reading, node: Node | None) -> dict[str, MappedFile]:
    files: dict[str, MappedFile] = {}
    for name, child in reading.mapping(node).items():
        reading.warn_of_unknown(child, MAPPED)
        has = reading.mapping(child)
        path = read_dataset_path(reading, has.get("path")) or ""
        files[name] = MappedFile(path, reading.flag(has.get("optional")) or False)
    return files


def read_spec_params(reading: Reading, node: Node | None) -> dict[str, dict[str, str | Download]]:
    """Read the values that fill keys of the spec, by action and key: a word such as parent_model,
    or a file of the web.
    """
    return {
        action: {
            key: read_spec_param(reading, child)
            for key, child in reading.checked_keys(params, is_spec_key, EXAMPLE).items()
        }
        for action, params in reading.mapping(node).items()
    }


def read_spec_param(reading: Reading, node: Node) -> str | Download:
    if not isinstance(node.value.data, dict):
        return reading.text(node)
    reading.warn_of_unknown(node, DOWNLOAD)
    has = reading.mapping(node)
    link, destination = reading.text(has.get("link")), reading.text(has.get("destination_path"))
    if not link.startswith("https://"):
        reading.refuse(node, "has no link that starts with https://.", "Write link: https://...")
    if not destination.startswith("/") or ".." in destination.split("/"):
        reading.refuse(
            node, "has no absolute destination_path.", "Write it like /ptm/model/weights.pth."
        )
    return Download(link, destination)
