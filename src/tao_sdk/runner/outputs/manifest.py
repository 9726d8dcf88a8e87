"""The manifest: the files in the results, with sizes and checksums, and the attempt's state.

`files` lists every file. Only an unchanged file has a `sha256`, so a file with one is complete.
`whole` is true once the command has ended and every file is accounted for; only then may the
manifest decide how the job ended. `folders` has the number of files and bytes of each checkpoint
folder, or -1 until all its files are unchanged. `unsent` lists files that were not sent when the
command ended, and `unsent_files` is their number.
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
    from tao_sdk.runner.results_folder import ResultsFolder

SCHEMA = 1
LARGEST = 256 << 20  # bytes of a manifest to read: the command can write there, too
MOST_UNSENT = 100  # names of unsent files in a manifest


def load_manifest(path: str) -> dict[str, Any]:
    """The manifest of an earlier attempt; empty if there is none."""
    try:
        return parse_manifest(private.read_file(path, LARGEST))
    except OSError:
        return {}


def parse_manifest(text: bytes) -> dict[str, Any]:
    """Parse a manifest, with only its usable entries; empty if that fails. A minimal Python has no
    json.
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
    results: ResultsFolder,
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
        "job": results.job,
        "attempt": results.attempt,
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
    """True for a path that stays below the results."""
    return (
        isinstance(path, str)
        and not path.startswith("/")
        and ".." not in path.split("/")
        and "\0" not in path
    )


class Manifest:
    """The manifest of this attempt, updated while the command runs and at its end."""

    def __init__(self, results: ResultsFolder, excludes: list[str]) -> None:
        self.results = results
        self.excludes = [".tao", *excludes]
        self.found_shapes: dict[str, Shape] = {}  # at the last look
        self.seen_shapes: dict[str, Shape] = {}  # at the look an interval ago
        self.hashes: dict[tuple[str, Shape], str] = {}
        for entry in load_manifest(results.manifest_path).get("files", []):
            self.hashes[entry["path"], (entry["size"], entry["mtime"])] = entry["sha256"]

    def renew(
        self, exit_code: int | None, whole: bool, still: Callable[[str, Shape], bool]
    ) -> list[str]:
        """Look at the files and write the manifest. `still`: True for a file that no longer
        changes. Return a line for each problem.
        """
        tree = Tree(self.results.folder, self.excludes)
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
            self.results,
            exit_code,
            whole,
            tree.problems,
            [entry for entry in files if entry],
            folders,
        )
        atomic.write(self.results.manifest_path, text.encode(), 0o644)
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
        """A file's SHA-256, computed once for each shape; None if the file changed meanwhile."""
        if (path, shape) not in self.hashes:
            full = os.path.join(self.results.folder, path)
            checksum = file_digest(full, "sha256")
            if shape_of(full) != shape:
                return None
            self.hashes[path, shape] = checksum
        return self.hashes[path, shape]

    def is_known(self, path: str, shape: Shape) -> bool:
        """True if the file is unchanged for an interval, or its checksum is already known."""
        return self.seen_shapes.get(path) == shape or self.is_hashed(path, shape)

    def is_hashed(self, path: str, shape: Shape) -> bool:
        return (path, shape) in self.hashes
