"""Outputs of a passthrough job: copy paths in the container to the results, as they grow.

A growing file's copy is appended to. Any other copy is written under a temporary name, and renamed
once it is complete. An unchanged file is not copied again.
"""

from __future__ import annotations

import os

from tao_sdk.net.atomic import BLOCK, append_rest, copy_whole, take_times_and_mode
from tao_sdk.runner.outputs.brought import own_tree, owns_file, paths_to_bring, written_there
from tao_sdk.runner.outputs.tree import covers_path, is_growing, shape_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.runner.document import Copy
    from tao_sdk.runner.outputs.tree import Shape
    from tao_sdk.runner.results_folder import ResultsFolder

# bytes at the start and before the seam that must be equal for a file to count as continued
OVERLAP = 4096


class Copies:
    """The paths of one job, and their copies."""

    def __init__(self, copies: list[Copy], results: ResultsFolder, excludes: list[str]) -> None:
        self.excludes = excludes  # by the names below the results
        self.results = results
        folder = results.folder
        if results.rank:
            folder = os.path.join(folder, f".rank-{results.rank}")
        # (path in the container, path of its copy, name below the results)
        self.copied_paths = [
            (path, os.path.join(folder, name), name)
            for path, name in paths_to_bring(copies, results)
        ]
        self.last_shapes: dict[str, Shape] = {}  # of the sources, at the last look
        self.unproven: set[str] = set()  # continued files, compared only at start and seam
        # copy -> (shape of its source, shape of the copy)
        self.made: dict[str, tuple[Shape, Shape]] = {}
        self.missing: list[str] = []
        self.failed: list[str] = []
        self.problems: list[str] = []

    def renew(self, final: bool) -> list[str]:
        """Copy what is new and complete, or everything if `final`. Returns a line for each path
        that could not be read.
        """
        self.missing, self.failed, self.problems = [], [], []
        for source, target, name in self.copied_paths:
            if os.path.isdir(source):
                self.copy_folder(source, target, name, final)
            elif os.path.isfile(source):
                if owns_file(source, self.results):
                    self.copy_file(source, target, shape_of(source), final)
            elif os.path.exists(source):  # a pipe has no end that could be waited for
                self.problems.append(f"{source}: not a file")
            elif not written_there(name, self.results):
                self.missing.append(source)
        return self.problems

    def copy_folder(self, source: str, target: str, name: str, final: bool) -> None:
        """Copy the files of a folder, except those with excluded names."""
        tree = own_tree(source, self.results, [])
        self.problems += [f"{source}: {problem}" for problem in tree.problems]
        for path, shape in tree.files.items():
            if not self.is_excluded(os.path.join(name, path)):
                self.copy_file(os.path.join(source, path), os.path.join(target, path), shape, final)

    def is_excluded(self, name: str) -> bool:
        return any(covers_path(prefix, name) for prefix in self.excludes)

    def copy_file(self, source: str, target: str, shape: Shape, final: bool) -> None:
        """Copy one file if it is due. An error costs only this file, and fails the job only if
        the file could be read.
        """
        if not self.is_due(source, target, shape, final):
            return
        try:
            self.write_copy(source, target, final)
            if shape_of(source) == shape:
                self.made[target] = shape, shape_of(target)
        except FileNotFoundError:
            return  # removed since the look; a temporary file of the program's own
        except OSError as error:
            errors = self.failed if os.access(source, os.R_OK) else self.problems
            errors.append(f"{source}: {error.strerror}")

    def is_due(self, source: str, target: str, shape: Shape, final: bool) -> bool:
        """True if a file has changed and is complete: unchanged since the last look, or `final`.

        A growing file is due at every look. An unproven file is due at the end.
        """
        is_still = self.last_shapes.get(source) == shape
        self.last_shapes[source] = shape
        if final and source in self.unproven:
            return True
        if self.is_copied(target, shape):
            return False
        return final or is_still or is_growing(source)

    def write_copy(self, source: str, target: str, final: bool) -> None:
        """Append to the copy of a growing file, or write a whole one."""
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if is_growing(source) and append_new(source, target, final):
            self.unproven.add(source)
        else:
            copy_whole(source, target)

    def is_copied(self, target: str, shape: Shape) -> bool:
        """True if the target is the copy of a file of that shape."""
        source_shape, copy_shape = self.made.get(target, (shape, shape))
        if source_shape != shape:
            copy_shape = shape
        try:
            return shape_of(target) == copy_shape  # a disk may have times only to the second
        except OSError:
            return False


def append_new(source: str, target: str, thorough: bool) -> bool:
    """Append the source's new bytes to the target. False, without a change, if the source does not
    begin with the target.

    Compares the start and the end of the target, or all of it if `thorough`: a rewritten file may
    begin and end as before.
    """
    if not (os.path.isfile(target) and os.access(target, os.W_OK)):
        return False
    with open(source, "rb") as new, open(target, "r+b") as old:
        before = os.fstat(new.fileno())
        size = old.seek(0, os.SEEK_END)
        for at in range(0, size, BLOCK) if thorough else (0, max(0, size - OVERLAP)):
            new.seek(at)
            old.seek(at)
            length = min(BLOCK if thorough else OVERLAP, size - at)
            if new.read(length) != old.read(length):
                return False
        new.seek(size)
        old.seek(size)
        append_rest(new, old)
    take_times_and_mode(before, target)
    return True
