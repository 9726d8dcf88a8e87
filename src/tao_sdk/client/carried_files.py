"""Carried files: the files and folders of this machine that travel with a job, as contents by
their paths in the job.

Here: how they are read, from a job file, a flag or a call. Not here: where they lie in the job
(payload/entrypoint.py).
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from tao_sdk.client.document import DocumentError, Place, Value
from tao_sdk.model.fields import FieldError
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.units import format_size

FILES_LIMIT = 64 * 1024 * 1024  # bytes; files travel inside the command
NOT_CARRIED = frozenset({"__pycache__", ".git"})
PATH_ENDS = (".py", ".sh", ".yaml", ".yml", ".json", ".toml", ".txt", ".csv", ".pt", ".pth")
MOST_BESIDE = 1000  # entries of a folder among which a misspelt name is looked for


def with_contents(spec: JobSpec) -> JobSpec:
    """The spec with the content of each file that `files` names by a Path. Raises SpecError."""
    paths = {
        target: os.fsdecode(cast("os.PathLike[str]", path))
        for target, path in spec.files.items()
        if isinstance(path, os.PathLike)
    }
    if not paths:
        return spec
    named = {
        target: Value(Place(f"files[{target!r}]"), path, path) for target, path in paths.items()
    }
    read = read_files("files", Value(Place("files"), named), Path())
    given = {target: content for target, content in spec.files.items() if target not in paths}
    if twice := sorted(given.keys() & read.keys()):
        what = f"files has two files for {twice[0]!r} in the job."
        raise FieldError("files", what, "One would write over the other.", "Leave one out.")
    return replace(spec, files={**given, **read})


def path_like_texts(files: Mapping[str, object]) -> Iterator[str]:
    """Yield a warning for each text that is probably the path of a file."""
    for target, text in files.items():
        if isinstance(text, str) and "\n" not in text and text.endswith(PATH_ENDS):
            yield (
                f"files[{target!r}] is the text {text!r}. If it is a path: pathlib.Path({text!r})."
            )


def read_files(name: str, value: Value, folder: Path) -> dict[str, bytes]:
    """Path in the job -> content, folders as all files below them. Relative paths start in
    `folder`.
    """
    wanted(
        value,
        name,
        dict,
        "a mapping of paths in the job to files here, such as train.py: ./train.py",
    )
    carried: dict[str, bytes] = {}
    for target, source in value.mapping.items():
        wanted(source, f"{name}.{target}", str, "the path of a file or folder")
        for place, path in named_files(target, local(source, folder), source):
            if place in carried:
                raise DocumentError(
                    source.place,
                    f"{name} has two files for {place} in the job.",
                    "One would write over the other.",
                    "Give one of them another place.",
                )
            carried[place] = content(path, source, FILES_LIMIT - sum(map(len, carried.values())))
    return carried


def named_files(target: str, path: Path, source: Value) -> Iterator[tuple[str, Path]]:
    """(path in the job, path here) of a file, or of every file below a folder, in a fixed order."""
    if not path.exists():
        raise missing_file(target, path, source)
    if not path.is_dir():
        yield target, path
        return
    below = "" if target in (".", "./") else target.rstrip("/") + "/"
    for each in files_below(path, source):
        yield below + each.relative_to(path).as_posix(), each


def missing_file(target: str, path: Path, source: Value) -> DocumentError:
    """The error for a missing file. It names the file that was probably meant."""
    in_document = bool(source.place.line)
    key, why = f"files.{target}: ", "Paths are relative to the job file."
    near = difflib.get_close_matches(path.name, names_beside(path), n=1)
    return DocumentError(
        source.place,
        f"{key if in_document else ''}there is no {path}.",
        why if in_document else "",
        f"Did you mean {path.with_name(near[0])}?" if near else "",
    )


def names_beside(path: Path) -> list[str]:
    """Names in the folder of `path`; none where it cannot be read."""
    try:
        with os.scandir(path.parent) as entries:
            return [entry.name for entry, _ in zip(entries, range(MOST_BESIDE), strict=False)]
    except OSError:
        return []


def files_below(folder: Path, source: Value) -> Iterator[Path]:
    """Every file below a folder; links are followed, but not round in a circle."""
    seen: set[str] = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        real = str(Path(root).resolve())
        if real in seen:
            raise DocumentError(
                source.place,
                f"{root} is a link to a folder that is taken already.",
                "The folder would have no end.",
                "Remove the link, or name a folder beside it.",
            )
        seen.add(real)
        folders[:] = sorted(set(folders) - NOT_CARRIED)
        yield from (Path(root, name) for name in sorted(names))


def content(path: Path, source: Value, room: int) -> bytes:
    """A file's bytes. Raises DocumentError when it is no ordinary file, or larger than `room`."""
    try:
        if not path.is_file():
            raise DocumentError(
                source.place,
                f"not a readable file: {path}",
                "It is a broken link, a pipe or a device.",
                "Name an ordinary file.",
            )
        with path.open("rb") as file:
            data = file.read(room + 1)
    except OSError as error:
        raise DocumentError(
            source.place, f"{path} cannot be read: {error.strerror}.", "", "Check its permissions."
        ) from None
    if len(data) <= room:
        return data
    raise DocumentError(
        source.place,
        f"with {path} the job's files are more than {format_size(FILES_LIMIT)}.",
        "Files travel inside the job's command.",
        "Put large files where the job can read them, and name them under inputs.",
    )


def local(value: Value, folder: Path) -> Path:
    """The path that a value names; a relative one lies in `folder`."""
    return folder / Path(value.text).expanduser()


def wanted(value: Value, name: str, shape: type, allowed: str) -> Value:
    if isinstance(value.data, shape):
        return value
    raise DocumentError(value.place, f"{name} is {value.shape}; it must be {allowed}.")
