"""Outputs of a passthrough job: paths in the container whose content is copied to the results, as
it grows.

A file that is only ever appended to is continued; any other appears under a temporary name and is
renamed once it is complete. What was copied and has not changed is not copied again.
"""

from __future__ import annotations

import os
import stat

from tao_sdk.net.atomic import replacing
from tao_sdk.runner.outputs.brought import brought, others, written_there
from tao_sdk.runner.outputs.tree import Tree, covers, growing, shape_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

    from tao_sdk.runner.document import Copy
    from tao_sdk.runner.outputs.tree import Shape
    from tao_sdk.runner.place import Place

# bytes at the start and before the seam that have to be equal for a file to count as continued
OVERLAP = 4096
BLOCK = 1 << 20


class Copies:
    """The paths of one job and where each is kept."""

    def __init__(self, copies: list[Copy], place: Place, excludes: list[str]) -> None:
        self.excludes = excludes  # by the names below the results
        self.place = place
        folder = (
            place.folder if place.rank == 0 else os.path.join(place.folder, f".rank-{place.rank}")
        )
        self.kept = [
            (path, os.path.join(folder, name), name) for path, name in brought(copies, place)
        ]
        self.seen: dict[str, Shape] = {}
        self.unproven: set[str] = set()  # continued, and not compared but at the seam
        self.made: dict[
            str, tuple[Shape, Shape]
        ] = {}  # copy -> the shape of what it is of, and its own
        self.missing: list[str] = []
        self.failed: list[str] = []
        self.problems: list[str] = []

    def renew(self, final: bool) -> list[str]:
        """Copy what is new and complete; at the end everything. What could not be looked at."""
        self.missing, self.failed = [], []
        self.problems = []
        problems = self.problems
        for source, target, name in self.kept:
            if os.path.isdir(source):
                tree = Tree(source, others(source, self.place))
                problems += [f"{source}: {each}" for each in tree.problems]
                for path, shape in tree.files.items():
                    if not any(covers(each, os.path.join(name, path)) for each in self.excludes):
                        self.copy(
                            os.path.join(source, path), os.path.join(target, path), shape, final
                        )
            elif os.path.isfile(source):
                self.copy(source, target, shape_of(source), final)
            elif os.path.exists(source):
                problems.append(
                    f"{source}: not a file"
                )  # a pipe has no end that could be waited for
            elif not written_there(name, self.place):
                self.missing.append(source)
        return problems

    def copy(self, source: str, target: str, shape: Shape, final: bool) -> None:
        """One file, if it is its turn. A failure costs only this file; one that nobody can read is
        no failure of ours.
        """
        still = self.seen.get(source) == shape
        self.seen[source] = shape
        unproven = final and source in self.unproven
        if (self.same(target, shape) and not unproven) or not (final or still or growing(source)):
            return
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if growing(source) and continued(source, target, final):
                self.unproven.add(source)
            else:
                whole(source, target)
            if shape_of(source) == shape:
                self.made[target] = shape, shape_of(target)
        except FileNotFoundError:
            return  # removed since the look; a temporary file of the program's own
        except OSError as error:
            told = self.failed if os.access(source, os.R_OK) else self.problems
            told.append(f"{source}: {error.strerror}")

    def same(self, target: str, shape: Shape) -> bool:
        """Whether it is the copy of a file of that shape. A disk may have times
        only to the second.
        """
        of, made = self.made.get(target, (shape, shape))
        try:
            return shape_of(target) == (made if of == shape else shape)
        except OSError:
            return False


def continued(source: str, target: str, thorough: bool) -> bool:
    """Append what is new. False when the source is not a continuation of the target, which is then
    as it was.

    A file that is written anew may begin and end as it did: who looks is `thorough` once, at the
    end.
    """
    if not (os.path.isfile(target) and os.access(target, os.W_OK)):
        return False
    with open(source, "rb") as new, open(target, "r+b") as old:
        found = os.fstat(new.fileno())
        size = old.seek(0, os.SEEK_END)
        for at in range(0, size, BLOCK) if thorough else (0, max(0, size - OVERLAP)):
            new.seek(at)
            old.seek(at)
            length = min(BLOCK if thorough else OVERLAP, size - at)
            if new.read(length) != old.read(length):
                return False
        new.seek(size)
        old.seek(size)
        pour(new, old)
    like(found, target)
    return True


def whole(source: str, target: str) -> None:
    """A complete copy under the name, or nothing."""
    with open(source, "rb") as new, replacing(target) as file:
        found = os.fstat(new.fileno())
        pour(new, file)
        file.flush()
        like(found, file.fileno())


def pour(new: IO[bytes], old: IO[bytes]) -> None:
    while True:
        data = new.read(1 << 20)
        if not data:
            return
        old.write(data)


def like(found: os.stat_result, target: str | int) -> None:
    """Give the copy the mode of what it was copied from, and the time that had before it was read:
    what is written to it later, or put in its place, is copied then.
    """
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    os.chmod(target, stat.S_IMODE(found.st_mode))
