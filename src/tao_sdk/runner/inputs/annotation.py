"""Annotations: read the paths in a json, jsonl, csv or parquet file, to fetch only those files."""

from __future__ import annotations

import os
from typing import cast

from tao_sdk.net.address import shown
from tao_sdk.net.failure import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from tao_sdk.net.source import Source
    from tao_sdk.runner.document import Selective

FIELD = 1 << 30  # characters of one csv field: a row may hold a mask beside the path
FORMATS = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}


def choose_sources(
    sources: list[Source], uri: str, how: Selective, values: Mapping[str, str]
) -> list[Source]:
    """The files of a folder that the annotation lists. `values`: the paths of the inputs in place.
    Raises Failure for a listed file that is missing.
    """
    key = how["annotation"]
    paths = [path for name, path in values.items() if name == key or name.startswith(key + "[")]
    names = {name for path in paths for name in named_paths(path, how["format"], how["keys"])}
    missing = sorted(names - {source.path for source in sources})
    if missing:
        raise Failure(
            "input.missing",
            f"{len(missing)} files that the annotation names are not "
            f"there, the first is {missing[0]}.",
            f"They are not below {shown(uri)}.",
            "Correct the annotation, or the address of the folder.",
        )
    return [source for source in sources if source.path in names]


def named_paths(path: str, form: str, keys: list[str]) -> list[str]:
    """The relative paths in an annotation, sorted, each once. Raises Failure if it cannot be read,
    lists nothing, or has a path that leads out of the folder.
    """
    form = form or FORMATS.get(os.path.splitext(path)[1].lower(), "json")
    names: set[str] = set()
    try:
        for value in READERS[form](path, keys):
            names.add(check_path(path, value))
    except ImportError as error:
        raise annotation_failure(
            path,
            f"It is parquet, and the image's python3 has no {error.name}.",
            "Use an image with pyarrow, or name an annotation in json, jsonl or csv.",
        ) from error
    except OSError as error:
        raise annotation_failure(
            path, f"{error.strerror}.", "Name a file, or leave selective out to have all files."
        ) from error
    except (ValueError, ArithmeticError, RecursionError, MemoryError, csv_error()) as error:
        reason = str(error)[:200].rstrip(".") or type(error).__name__
        raise annotation_failure(path, f"It is no {form} that can be read: {reason}.") from error
    if not names:
        raise annotation_failure(
            path, f"Nothing in it stands under {' or '.join(keys)}.", "Correct selective.keys."
        )
    return sorted(names)


def csv_error() -> type[Exception]:
    import csv

    return csv.Error


def annotation_failure(
    path: str, why: str, next: str = "Correct the file, or leave selective out to have all files."
) -> Failure:
    return Failure(
        "input.annotation", f"The annotation {path} does not tell which files to fetch.", why, next
    )


def check_path(path: str, value: str) -> str:
    clean = os.path.normpath(value)
    if os.path.isabs(value) or clean == ".." or clean.startswith("../") or "\0" in value:
        raise annotation_failure(
            path,
            f"It names {value[:200]!r}, which is no path below the folder.",
            "Name files relative to the folder.",
        )
    return clean


def texts_in(value: Any) -> Iterator[str]:
    """The paths in a value: a text itself, or the items of a list."""
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from texts_in(item)


def read_json(path: str, keys: list[str]) -> Iterator[str]:
    """The paths under any of the keys, at any depth."""
    import json

    with open(path, encoding="utf-8") as file:
        ahead: list[Any] = [json.load(file)]
    while ahead:
        value = ahead.pop()
        if isinstance(value, dict):
            entry = cast("dict[str, Any]", value)
            for key in keys:
                yield from texts_in(entry.get(key))
            ahead += entry.values()
        elif isinstance(value, list):
            ahead += value


def read_lines(path: str, keys: list[str]) -> Iterator[str]:
    import json

    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row: dict[str, Any] = json.loads(line) if line.strip() else {}
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
            for key in keys if isinstance(row, dict) else ():  # pyright: ignore[reportUnnecessaryIsInstance]
                yield from texts_in(row.get(key))


def read_csv(path: str, keys: list[str]) -> Iterator[str]:
    import csv

    csv.field_size_limit(FIELD)
    with open(path, encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            for key in keys:
                yield from texts_in(row.get(key))


def read_parquet(path: str, keys: list[str]) -> Iterator[str]:
    import importlib
    import site

    site.main()  # adds the image's packages; the runner itself is started without them
    parquet: Any = importlib.import_module("pyarrow.parquet")
    file = parquet.ParquetFile(path)
    wanted = [key for key in keys if key in file.schema_arrow.names]
    for batch in file.iter_batches(columns=wanted):
        for key in wanted:
            yield from texts_in(batch.column(key).to_pylist())


READERS = {"json": read_json, "jsonl": read_lines, "csv": read_csv, "parquet": read_parquet}
