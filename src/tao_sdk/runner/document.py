"""The document from the packer to the runner: the work of the job, decided and checked before
submit.

Here: only types, which are not packed into the job. Paths in the document are those in the job.
"""

from __future__ import annotations

from typing import TypedDict

# The key whose value fills the hole, its quoting style (quote.py), the text if there is no value,
# and the texts before and after a value.
Hole = tuple[str, str, str, str, str]


class Template(TypedDict):
    """Text with holes: parts[0], hole 0, parts[1], hole 1, ... It has one part more than holes."""

    parts: list[str]
    holes: list[Hole]


class Selective(TypedDict):
    """Fetch only the files that an annotation lists. The annotation is itself an input."""

    annotation: str  # its key
    format: str  # json, jsonl, csv, parquet; "" = by the file's name
    keys: list[str]  # the keys of the paths in it


class Options(TypedDict, total=False):
    """Options of an input; a missing one has its default."""

    # "no": archives stay packed; "yes": archives in a folder are unpacked too; "parent": the same,
    # without a folder for each archive
    extract: str
    selective: Selective
    patterns: list[
        str
    ]  # a folder's files must match one of these, and none of those that begin with !


class Input(TypedDict):
    """One input, in place before the command starts. Its path becomes the value of `key`."""

    key: str
    uri: str
    kind: str  # the declared kind: file, folder or ""; a hint, the look at the address decides
    # its required path in the job (container_path, or a passthrough path); "" = any
    target: str
    options: Options


class Output(TypedDict):
    """One output key of the spec or the arguments. Its path becomes the value of `key`."""

    key: str
    value: str  # the value in the spec; an absolute path stays as it is
    file: bool  # True for a file, False for a folder
    optional: bool  # no warning if it was never written


class Copy(TypedDict):
    """A path of a passthrough job. Its content is copied to `name` below the job's results."""

    path: str
    name: str
    optional: bool  # no warning if it was never written


class Document(TypedDict):
    """The complete input of the runner. `files` are the paths of the blobs packed beside it, in
    order.
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
