"""The manifest: what the results hold, with sizes and checksums, and how far the attempt has come.

`files` lists every file; `sha256` only where the file stood still, so a file with one is complete.
`whole` is true once the command has ended and everything was accounted for; only then may the
manifest decide how the job ended. `folders` tells of each folder that is a checkpoint how many
files and bytes it has, once all of them stood still; -1 before. `unsent` names files that had not
been sent when the command had ended, `unsent_files` is how many they were.
"""

from __future__ import annotations

import os

from tao_sdk.net import atomic
from tao_sdk.runner import private
from tao_sdk.runner.jsontext import dumps
from tao_sdk.runner.outputs.tree import Tree, file_digest, shape_of, whole_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tao_sdk.runner.outputs.tree import Shape
    from tao_sdk.runner.place import Place

SCHEMA = 1
LARGEST = 256 << 20  # bytes of one that is read: the command can write there, too
MOST_UNSENT = 100  # names of files that it lists as not sent


def load_manifest(path: str) -> dict[str, Any]:
    """The manifest that an earlier attempt left here; empty when there is none."""
    try:
        return parse_manifest(private.read_file(path, LARGEST))
    except OSError:
        return {}


def parse_manifest(text: bytes) -> dict[str, Any]:
    """A manifest, with the entries that can be used; empty when it cannot be read. A minimal python
    has no json.
    """
    try:
        import json

        manifest: dict[str, Any] = json.loads(text.decode())
        manifest["files"] = [entry for entry in manifest["files"] if is_usable(entry)]
        manifest["folders"] = {
            path: [int(count), int(size)]
            for path, (count, size) in manifest.get("folders", {}).items()
        }
    except (
        ImportError,
        ValueError,
        ArithmeticError,
        RecursionError,
        KeyError,
        TypeError,
        AttributeError,
    ):
        return {}
    return manifest


def manifest_text(
    place: Place,
    exit_code: int | None,
    whole: bool,
    left_out: list[str],
    files: list[dict[str, Any]],
    folders: dict[str, list[int]],
    unsent: Sequence[str] = (),
) -> str:
    """The text of a manifest."""
    content: dict[str, object] = {
        "schema": SCHEMA,
        "job": place.job,
        "attempt": place.attempt,
        "whole": whole,
        "exit_code": exit_code,
        "left_out": left_out[:100],
        "folders": folders,
    }
    if unsent:
        content.update(unsent=list(unsent[:MOST_UNSENT]), unsent_files=len(unsent))
    head, listed = dumps(content)[:-1], ",\n".join(map(dumps, files))
    return f'{head},\n"files": [\n{listed}\n]}}\n'


def is_usable(entry: Any) -> bool:
    try:
        return (
            is_below(entry["path"])
            and entry["size"] >= 0
            and entry["mtime"] > 0
            and bool(entry["sha256"])
        )
    except (KeyError, TypeError):
        return False


def is_below(path: Any) -> bool:
    """A path that leads nowhere but below the results."""
    return (
        isinstance(path, str)
        and not path.startswith("/")
        and ".." not in path.split("/")
        and "\0" not in path
    )


class Manifest:
    """The manifest of this attempt, renewed while the command runs and at its end."""

    def __init__(self, place: Place, excludes: list[str]) -> None:
        self.place = place
        self.excludes = [".tao", *excludes]
        self.found_shapes: dict[str, Shape] = {}  # by the last look
        self.seen_shapes: dict[str, Shape] = {}  # by the look an interval ago
        self.hashes: dict[tuple[str, Shape], str] = {}
        for entry in load_manifest(place.manifest_path).get("files", []):
            self.hashes[entry["path"], (entry["size"], entry["mtime"])] = entry["sha256"]

    def renew(
        self, exit_code: int | None, whole: bool, still: Callable[[str, Shape], bool]
    ) -> list[str]:
        """Look, and write what is there now; `still` says which files no longer change. What had to
        be left out.
        """
        tree = Tree(self.place.folder, self.excludes)
        files = [
            self.make_entry(path, tree.files[path], still, tree.problems)
            for path in sorted(tree.files)
        ]
        self.found_shapes = tree.files
        complete = {entry["path"] for entry in files if entry and entry["sha256"]}
        folders = whole_folders(
            [(path, shape[0]) for path, shape in tree.files.items()], complete.__contains__
        )
        text = manifest_text(
            self.place,
            exit_code,
            whole,
            tree.problems,
            [entry for entry in files if entry],
            folders,
        )
        atomic.write(self.place.manifest_path, text.encode(), 0o644)
        return tree.problems

    def make_entry(
        self, path: str, shape: Shape, still: Callable[[str, Shape], bool], problems: list[str]
    ) -> dict[str, Any] | None:
        try:
            sha256 = self.file_sha256(path, shape) if still(path, shape) else None
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
            return None
        return {"path": path, "size": shape[0], "mtime": shape[1], "sha256": sha256}

    def file_sha256(self, path: str, shape: Shape) -> str | None:
        """Computed once for each shape of a file; None when it changed meanwhile."""
        if (path, shape) not in self.hashes:
            full = os.path.join(self.place.folder, path)
            checksum = file_digest(full, "sha256")
            if shape_of(full) != shape:
                return None
            self.hashes[path, shape] = checksum
        return self.hashes[path, shape]

    def is_known(self, path: str, shape: Shape) -> bool:
        """It looked the same an interval ago, or its checksum is known already."""
        return self.seen_shapes.get(path) == shape or self.is_hashed(path, shape)

    def is_hashed(self, path: str, shape: Shape) -> bool:
        return (path, shape) in self.hashes
