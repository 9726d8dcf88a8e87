"""The document that the packer hands to the runner: what to do in the job, decided and checked
before submit.

Only types live here; nothing of it travels into the job. Paths in the document are as the job sees
them.
"""

from __future__ import annotations

from typing import TypedDict

# The key whose value goes here, how it is quoted (quote.py), the text when there is no value; what
# stands before and after one.
Hole = tuple[str, str, str, str, str]


class Template(TypedDict):
    """Text with holes: parts[0], hole 0, parts[1], hole 1, ... One part more than
    there are holes.
    """

    parts: list[str]
    holes: list[Hole]


class Selective(TypedDict):
    """Only the files are fetched that an annotation, itself an input, names."""

    annotation: str  # its key
    format: str  # json, jsonl, csv, parquet; "" = by the file's name
    keys: list[str]  # under which paths stand in it


class Options(TypedDict, total=False):
    """How an input is to be had; what is not there is as usual."""

    # "no": an archive stays packed; "yes": also those in a folder; "parent": the same, without a
    # folder for each
    extract: str
    selective: Selective
    patterns: list[
        str
    ]  # of a folder the files that match one of these, and none that begins with !


class Input(TypedDict):
    """One thing to have in place before the command starts; its path becomes the value of `key`."""

    key: str
    uri: str
    kind: str  # file, folder or "": what was declared; a hint, looking decides
    # where it must lie in the job (container_path, or a passthrough path); "" = wherever it is
    target: str
    options: Options


class Output(TypedDict):
    """One output key of the spec or the arguments; its place becomes the value of `key`."""

    key: str
    value: str  # what the spec says; an absolute path is kept
    file: bool  # a file is wanted, not a folder
    optional: bool  # nothing is said when it was never written


class Copy(TypedDict):
    """A path of a passthrough job whose content is kept as `name` below the job's results."""

    path: str
    name: str
    optional: bool  # nothing is said when it was never written


class Document(TypedDict):
    """Everything the runner is told. `files` are the paths of the blobs that travel beside it, in
    their order.
    """

    command: Template
    spec: Template | None
    format: str
    inputs: list[Input]
    outputs: list[Output]
    copies: list[Copy]
    excludes: list[str]
    files: list[str]
    resume: str
    job_id: str
    mount_path: str
