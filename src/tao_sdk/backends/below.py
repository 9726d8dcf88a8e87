"""Safe file access below a folder that a job writes to.

A job may plant a link, a pipe or a device under any name, and may swap one for another while we
look. So each name is opened relative to a folder that is already open, and no link leads out.

Here: finding, opening and writing below such a folder. Not here: paths that a person names
(LocalFiles in this_machine.py).
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple

from tao_sdk.model.errors import PathNotFound

MOST_LINKS = 40  # in one path, the kernel's own limit
ENTER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LeadsOut(PathNotFound):
    """A link leads out of the folder. The job has no right to show files outside it."""

    code = "path.leads_out"

    @classmethod
    def of_path(cls, path: str) -> LeadsOut:
        return cls(f"{path} lies outside the results.", "", "Name a file of the results.")

    @classmethod
    def by(cls, path: str) -> LeadsOut:
        return cls(
            f"not a file of the results: {path} (a link that leads out of them)",
            "",
            "Let the job copy what it leads to into its results.",
        )


class Spot(NamedTuple):
    """The place a path leads to: an open folder, and a name in it ("." for the folder itself).

    `below` is its path below the root.
    """

    folder: int
    name: str
    below: str
    seen: os.stat_result

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.seen.st_mode)


class Below:
    """One folder and everything below it.

    `follow`: the folder itself may be a link. A person's own folder may be one.
    """

    def __init__(self, root: str, *, follow: bool = False) -> None:
        self.path, self.real, self.follow = root.rstrip("/") or "/", os.path.realpath(root), follow

    def enter(self) -> int:
        """Open the folder and return its descriptor. Raises LeadsOut, OSError."""
        flags = ENTER & ~os.O_NOFOLLOW if self.follow else ENTER
        try:
            return os.open(self.path, flags)
        except NotADirectoryError:
            if os.path.islink(self.path):  # noqa: PTH114
                raise LeadsOut(
                    f"{self.path} is a link now; the results of a job are "
                    "not looked for behind one.",
                    "",
                    f"See where it leads: readlink {shlex.quote(self.path)}",
                ) from None
            raise

    def inside(self, path: str) -> str | None:
        """The part of an absolute path below the folder, or None if the path lies elsewhere."""
        for base in (self.path, self.real):
            if path == base or path.startswith(base.rstrip("/") + "/"):
                return path[len(base) :]
        return None

    @contextmanager
    def at(self, path: str, make: bool = False) -> Generator[Spot]:
        """Yield the place that a path below the folder leads to. Follows links.

        `make`: create each part of the path that is missing, as a folder. Raises LeadsOut, OSError.
        """
        walk = Walk(self)
        try:
            yield walk.along(path, make)
        finally:
            walk.close()

    @contextmanager
    def reading(self, path: str) -> Generator[IO[bytes]]:
        """Yield a regular file, open for reading.

        Raises PathNotFound for a pipe, a socket or a device, because these may have no end.
        """
        with self.at(path) as spot:
            refuse_endless(spot.seen, path)
            if spot.is_dir:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            with os.fdopen(os.open(spot.name, READ, dir_fd=spot.folder), "rb") as file:
                refuse_endless(os.fstat(file.fileno()), path)  # the job may have swapped it
                yield file

    @contextmanager
    def creating(self, path: str, aside: str) -> Generator[IO[bytes]]:
        """Yield a new file that gets its name `path` when the block ends without an error.

        Until then the file is called `aside`, in the same folder.
        """
        folder, _, name = path.rpartition("/")
        with self.at(folder, make=True) as spot:
            with suppress(FileNotFoundError):
                os.unlink(aside, dir_fd=spot.folder)
            try:
                with os.fdopen(os.open(aside, CREATE, 0o666, dir_fd=spot.folder), "w+b") as file:
                    yield file
                os.replace(aside, name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(aside, dir_fd=spot.folder)

    def create(self, name: str, data: bytes) -> None:
        """Write a new file. Raises FileExistsError if the name is taken, even by a dead link."""
        with (
            self.at("") as spot,
            os.fdopen(os.open(name, CREATE, 0o666, dir_fd=spot.folder), "wb") as file,
        ):
            file.write(data)


class Walk:
    """A walk from a root along a path. One folder is open at a time."""

    def __init__(self, root: Below) -> None:
        self.root, self.folder = root, root.enter()
        self.names: list[str] = []  # the folders entered so far
        self.links = 0

    def close(self) -> None:
        os.close(self.folder)

    def along(self, path: str, make: bool) -> Spot:
        left = names(path)[::-1]
        while left:
            name = left.pop()
            if name == "..":
                self.up(path)
                continue
            seen = self.seen(name, make)
            if stat.S_ISLNK(seen.st_mode):
                left += names(self.target(name, path))[::-1]
            elif stat.S_ISDIR(seen.st_mode) or left or make:
                self.down(name)
            else:
                return Spot(self.folder, name, "/".join([*self.names, name]), seen)
        return Spot(self.folder, ".", "/".join(self.names), os.fstat(self.folder))

    def seen(self, name: str, make: bool) -> os.stat_result:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.folder)
        return os.stat(name, dir_fd=self.folder, follow_symlinks=False)

    def down(self, name: str) -> None:
        """Enter a folder. Raises NotADirectoryError if it is no folder, or has become a link."""
        entered = os.open(name, ENTER, dir_fd=self.folder)
        os.close(self.folder)
        self.folder = entered
        self.names.append(name)

    def up(self, path: str) -> None:
        """Go to the parent folder: walk again from the root, by the names that led here.

        The job may have moved the open folder, so its ".." may be another folder by now.
        """
        if not self.names:
            raise LeadsOut.by(path)
        above = self.names[:-1]
        self.start()
        for name in above:
            self.down(name)

    def start(self) -> None:
        os.close(self.folder)
        self.folder = self.root.enter()
        self.names = []

    def target(self, name: str, path: str) -> str:
        """Read a link and return its target, relative to the folder that is open afterwards.

        An absolute target restarts the walk at the root. Raises LeadsOut, and PathNotFound after
        MOST_LINKS links.
        """
        self.links += 1
        if self.links > MOST_LINKS:
            raise PathNotFound(
                f"not a file: {path} (a link that leads back to itself)",
                "",
                "Name the file itself.",
            )
        said = os.readlink(name, dir_fd=self.folder)
        if not said.startswith("/"):
            return said
        inside = self.root.inside(said)
        if inside is None:
            raise LeadsOut.by(path)
        self.start()
        return inside


def names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def refuse_endless(seen: os.stat_result, path: str) -> None:
    """Raise PathNotFound unless this is a regular file or a folder.

    Reading a pipe would block, and a device may have no end.
    """
    if not stat.S_ISREG(seen.st_mode) and not stat.S_ISDIR(seen.st_mode):
        raise PathNotFound(
            f"not a file: {path} (a pipe, a socket or a device)", "", "Name a plain file."
        )
