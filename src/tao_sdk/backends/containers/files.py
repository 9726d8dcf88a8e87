"""Files on the daemon's machine.

If the daemon runs here, these are this machine's files. Otherwise they are read through the daemon.
"""

from __future__ import annotations

import posixpath
import re
import tarfile
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tao_sdk.backends.containers import window
from tao_sdk.backends.containers.window import Window
from tao_sdk.backends.contract import Files, FileStat, MiB, next_data
from tao_sdk.backends.this_machine import LocalFiles
from tao_sdk.model.errors import PathNotFound, Unreachable
from tao_sdk.net.address import path_of
from tao_sdk.transports.dockerd import Daemon, DaemonError

LIST_SECONDS = 600.0  # a folder of millions of files, on a disk that sleeps
SHELLS = 4  # images to try until one can list a folder
BLOCK = 1 * MiB


class HereFiles:
    """Files of this machine, on which the daemon runs too.

    Paths that we may not read, such as a volume's folder, are read through the daemon.
    """

    def __init__(self, daemon: Daemon, root: str = "") -> None:
        self.daemon = daemon
        self.local: Files = LocalFiles().below(root) if root else LocalFiles()
        self.far: Files = FarFiles(daemon, root)

    def stat(self, path: str) -> FileStat:
        try:
            return self.local.stat(path)
        except Unreachable:
            return self.far.stat(path)

    def list(self, path: str) -> list[FileStat]:
        try:
            return self.local.list(path)
        except Unreachable:
            return self.far.list(path)

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        try:
            return self.local.read(path, offset, limit)
        except Unreachable:
            return self.far.read(path, offset, limit)

    def next_data(self, path: str, offset: int) -> int:
        try:
            return next_data(self.local, path, offset)
        except Unreachable:
            return offset

    def below(self, folder: str) -> Files:
        return HereFiles(self.daemon, folder)


class FarFiles:
    """Files of the daemon's machine, for one caller.

    Its windows are closed when this object is garbage-collected.
    """

    def __init__(self, daemon: Daemon, root: str = "") -> None:
        self.daemon = daemon
        self.root = root  # a folder that a job writes to; "" for paths that a person names
        self.windows: list[Window] = []
        self.listed: dict[str, list[FileStat]] = {}  # folder -> its entries
        self.readings: list[Reading] = []  # at most one
        weakref.finalize(self, close, self.readings, self.windows)

    def stat(self, path: str) -> FileStat:
        path = absolute_path(path)
        return window.file_stat(path, self.locate_path(path)[2])

    def list(self, path: str) -> list[FileStat]:
        path = absolute_path(path)
        if path not in self.listed:
            seen = self.stat(path)
            if not seen.is_dir:
                return [seen]
            self.list_folder(path)
        return sorted(self.listed[path], key=lambda each: each.path)

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        path = absolute_path(path)
        if [(each.path, each.at) for each in self.readings] != [(path, offset)]:
            there, inside, _ = self.locate_path(path)
            self.readings.append(Reading(there, path, inside, offset))
        data = self.readings[0].take_bytes(limit)
        if limit is None or len(data) < limit:
            close(self.readings)
        return data

    def locate_path(self, path: str) -> tuple[Window, str, Any]:
        """Return (a window, the path in it, the daemon's stat of it). Raises PathNotFound.

        Ends the current reading first: the daemon does not answer for a window during a read.
        """
        close(self.readings)
        with looking(path):
            there = self.window_of(path)
            seen = there.stat_path(there.path_inside(path) or window.PLACE)
        if seen is None:
            raise not_on_the_machine(path)
        return there, *seen

    def window_of(self, path: str) -> Window:
        for each in self.windows:
            if each.path_inside(path):
                return each
        if not self.windows:
            window.sweep_windows(self.daemon)
        made = self.open_window(path, window.list_images(self.daemon)[0])
        self.windows.append(made)
        return made

    def open_window(self, path: str, image: str) -> Window:
        """Open a window on a path.

        A path in a volume is mounted as that volume: containers may not see the volume's folder as
        a path of the machine.
        """
        for name, root in window.list_volumes(self.daemon).items():
            if posixpath.commonpath([path, root]) == root:
                inside = place_in_window(path, root)
                return window.open_window(self.daemon, image, root, name, inside)
        source = self.mount_source(path)
        inside = place_in_window(path, source)
        return window.open_window(self.daemon, image, source, lists=inside)

    def mount_source(self, path: str) -> str:
        """The path to mount for a window.

        The daemon follows links in this path, so a job must not have chosen any name in it. For a
        path below `root` it is the parent of `root`.
        """
        if self.root and (path == self.root or path.startswith(f"{self.root}/")):
            return posixpath.dirname(self.root)
        return path

    def below(self, folder: str) -> Files:
        return FarFiles(self.daemon, absolute_path(folder))

    def list_folder(self, path: str) -> None:
        """List a folder into `listed`, with all folders below it unless that is too much."""
        rows, complete = self.list_names(path)
        self.listed[path] = []
        for row in rows:
            self.listed.setdefault(posixpath.dirname(row.path), []).append(row)
            if row.is_dir and complete:
                self.listed.setdefault(row.path, [])

    def list_names(self, path: str) -> tuple[list[FileStat], bool]:
        for image in window.list_images(self.daemon)[:SHELLS]:
            with looking(path):
                listed = self.run_listing(path, image)
            if listed is not None:
                return window.parse_names(*listed, path)
        return self.from_tar(path), True

    def run_listing(self, path: str, image: str) -> tuple[str, str] | None:
        """Return (the listing's text, the listed folder's path in the window).

        None if the image cannot list.
        """
        there = self.open_window(path, image)
        try:
            self.daemon.ask("POST", f"/containers/{there.container}/start")
            ended = self.daemon.ask(
                "POST", f"/containers/{there.container}/wait", timeout=LIST_SECONDS
            )
            if ended["StatusCode"]:
                return None
            text = self.daemon.read_file(there.container, "/names")
            if text is None:
                return None
            inside = there.path_inside(path) or window.PLACE
            return text.decode("utf-8", "surrogateescape"), inside
        except DaemonError:
            return None
        finally:
            there.close()

    def from_tar(self, path: str) -> list[FileStat]:
        """List a folder without a shell: the daemon packs all of it, and we read only the names."""
        there, inside, _ = self.locate_path(path)
        with Tar(there, inside) as members:
            return [row for each in members if (row := window.names_of(each, path))]


class Tar:
    """The daemon's tar of a path in a window, as a stream."""

    def __init__(self, there: Window, inside: str) -> None:
        where = f"/containers/{there.container}/archive"
        as_it_is = {"Accept-Encoding": "identity"}
        self.answer = there.daemon.request(
            "GET", where, params={"path": inside}, headers=as_it_is, stream=True, timeout=(60, None)
        )
        self.tar = tarfile.open(fileobj=self.answer.raw, mode="r|")  # noqa: SIM115

    def __enter__(self) -> tarfile.TarFile:
        return self.tar

    def __exit__(self, *_: object) -> None:
        self.answer.close()


class Reading:
    """A file that is read from its beginning. It can go forward, not back."""

    def __init__(self, there: Window, path: str, inside: str, offset: int) -> None:
        self.path, self.at = path, 0
        self.tar = Tar(there, inside)
        member = self.tar.tar.next()
        content = self.tar.tar.extractfile(member) if member else None
        if content is None:
            self.close()
            raise PathNotFound(
                f"{path} is no file: another thing was put in its place.",
                "",
                "List the folder anew.",
            )
        self.content = content
        while self.at < offset and self.take_bytes(min(BLOCK, offset - self.at)):
            pass

    def take_bytes(self, limit: int | None) -> bytes:
        data = self.content.read(-1 if limit is None else limit)
        self.at += len(data)
        return data

    def close(self) -> None:
        self.tar.__exit__()


@contextmanager
def looking(path: str) -> Generator[None]:
    try:
        yield
    except DaemonError as error:
        if re.search("source path does not exist|not a directory", error.backend_words):
            raise not_on_the_machine(path) from None
        raise Unreachable(
            f"{path} cannot be looked at through the daemon.", error.what, "Try again."
        ) from error


def not_on_the_machine(path: str) -> PathNotFound:
    return PathNotFound(
        f"There is nothing at {path} on the daemon's machine.", "", "Check the path."
    )


def place_in_window(path: str, root: str) -> str:
    """The path in a window for a path below `root`, if the window has `root` mounted."""
    return posixpath.normpath(posixpath.join(window.PLACE, posixpath.relpath(path, root)))


def absolute_path(path: str) -> str:
    """The path of a file:// address or a plain path, normalized.

    Raises PathNotFound for a relative path, which means nothing on the daemon's machine.
    """
    plain = posixpath.normpath(path_of(path))
    if not posixpath.isabs(plain):
        raise PathNotFound(
            f"{path} is not absolute.",
            "The daemon is on another machine.",
            "Give the path from / on.",
        )
    return plain


def close(*several: list[Any]) -> None:
    for each in several:
        while each:
            each.pop().close()
