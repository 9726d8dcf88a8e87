"""Kept files: result files that lie only in the container of a job that has ended.

The job wrote them to a path without a mount. They stay until `tao gc`. Only plain files and folders
that the job itself wrote are shown, no links. There are none while the job runs.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from tao_sdk.backends.containers import parse
from tao_sdk.backends.containers.containers import Container, Containers, container_name
from tao_sdk.backends.containers.files import Reading, looking
from tao_sdk.backends.containers.window import IS_DIR, IS_LINK, Window, file_stat
from tao_sdk.backends.contract import Files, FileStat, MiB, next_data
from tao_sdk.backends.mounts import within
from tao_sdk.model.errors import PathNotFound, Unreachable
from tao_sdk.model.spec import ID_PATTERN
from tao_sdk.net.address import path_of

# a results directory ends with the job's id
JOB_FOLDER = re.compile(rf"/(?:.*/)?({ID_PATTERN})(?=/|$)")
SMALL = 1 * MiB  # a folder up to this size is fetched with the content of its files
MOST_FILES = 2000  # per job: each file is a request to the daemon
# Links, devices, pipes, sockets, in Go's file mode.
NOT_PLAIN = IS_LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
DELETED = 2  # a kind of change in the daemon's answer


class KeptFiles:
    """Looks into `elsewhere` first, and into a job's container if nothing is there."""

    def __init__(self, elsewhere: Files, containers: Containers) -> None:
        self.elsewhere, self.containers = elsewhere, containers
        # folder of a job -> its container, if that has the results
        self.opened: dict[str, InContainer | None] = {}

    def stat(self, path: str) -> FileStat:
        try:
            return self.elsewhere.stat(path)
        except PathNotFound:
            if there := self.inside(path):
                return there.stat(plain_path(path))
            raise

    def list(self, path: str) -> list[FileStat]:
        try:
            return self.elsewhere.list(path)
        except PathNotFound:
            if there := self.inside(path):
                return there.list(plain_path(path))
            raise

    def below(self, folder: str) -> Files:
        return KeptFiles(self.elsewhere.below(folder), self.containers)

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        try:
            return self.elsewhere.read(path, offset, limit)
        except PathNotFound:
            if there := self.inside(path):
                return there.read(plain_path(path), offset, limit)
            raise

    def next_data(self, path: str, offset: int) -> int:
        try:
            return next_data(self.elsewhere, path, offset)
        except PathNotFound:
            return offset

    def inside(self, path: str) -> InContainer | None:
        """The container of the job that the path belongs to, if it holds the results. Else None."""
        match = JOB_FOLDER.match(plain_path(path))
        if match is None:
            return None
        folder, job_id = match[0], match[1]
        if folder not in self.opened:
            self.opened[folder] = self.find_container(folder, job_id)
        return self.opened[folder]

    def is_elsewhere(self, folder: str) -> bool:
        try:
            self.elsewhere.stat(folder)
        except PathNotFound:
            return False
        return True

    def find_container(self, folder: str, job_id: str) -> InContainer | None:
        """The container that holds the folder; None if it lies elsewhere or the job still runs."""
        if self.is_elsewhere(folder):
            return None
        with looking(folder):
            container = self.containers.inspect(container_name(job_id))
        if container is None or parse.labels_of(container.seen).get("tao-sdk-results") != folder:
            return None
        if is_mounted(container, folder) or not parse.observation(container.seen).phase.over:
            return None
        return InContainer(Window(self.containers.daemon, container.id, ""), folder)


def is_mounted(container: Container, folder: str) -> bool:
    """True if the folder lies in a mount, by its name in the container or on the machine."""
    mounts: list[Mapping[str, Any]] = container.seen.get("Mounts") or []
    places = [str(mount.get(end) or "") for mount in mounts for end in ("Source", "Destination")]
    return any(within(folder, place) for place in filter(None, places))


class InContainer:
    """The results of one job in its container. `folder` is their path there."""

    def __init__(self, window: Window, folder: str) -> None:
        self.window, self.folder = window, folder
        self.files: dict[str, FileStat] | None = None
        self.reading: Reading | None = None

    def stat(self, path: str) -> FileStat:
        seen = self.all_files().get(path)
        if seen is None:
            raise not_in_the_container(path)
        return seen

    def list(self, path: str) -> list[FileStat]:
        seen = self.stat(path)
        if not seen.is_dir:
            return [seen]
        paths = [name for name in self.all_files() if posixpath.dirname(name) == path]
        return [self.all_files()[name] for name in sorted(paths)]

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        if self.stat(path).is_dir:
            raise not_in_the_container(path)
        if self.reading is None or (self.reading.path, self.reading.at) != (path, offset):
            self.stop_reading()
            with looking(path):
                self.reading = Reading(self.window, path, path, offset)
        data = self.reading.take_bytes(limit)
        if limit is None or len(data) < limit:
            self.stop_reading()
        return data

    def stop_reading(self) -> None:
        if self.reading is not None:
            self.reading.close()
            self.reading = None

    def all_files(self) -> dict[str, FileStat]:
        """Path -> its stat, for all files and folders in the results."""
        if self.files is None:
            with looking(self.folder):
                self.files = {seen.path: seen for seen in self.look_at_files()}
        return self.files

    def look_at_files(self) -> Iterator[FileStat]:
        """Yield the files and folders that the container has beyond its image.

        The folders above them were checked, too: they are no links. Raises Unreachable for more
        than MOST_FILES files.
        """
        paths = sorted(path for path in self.possible_paths() if within(path, self.folder))
        if len(paths) > MOST_FILES:
            source = shlex.quote(f"{self.window.container[:12]}:{self.folder}")
            what = f"{self.folder} has {len(paths)} files in its container."
            raise Unreachable(
                what, "They are too many to look at.", command=f"docker cp {source} ."
            )
        for path in paths:
            seen = self.window.stat_once(path)
            if seen is not None and is_plain(seen["mode"]):
                yield file_stat(path, seen)

    def possible_paths(self) -> list[str]:
        """The paths that may lie in the results.

        A small folder is listed by itself: a list of all changes in the container takes the daemon
        a hundred times as long.
        """
        folder = PurePosixPath(self.folder)
        way = [self.window.stat_once(str(above)) for above in (folder, *folder.parents[:-1])]
        if None in way:
            return []
        if all(seen["mode"] & IS_DIR for seen in way if seen):
            names = self.window.daemon.list_names(self.window.container, self.folder, SMALL)
            if names is not None:
                return names
        return self.changed_paths()

    def changed_paths(self) -> list[str]:
        """All paths that were added or changed in the container."""
        changes: list[Mapping[str, Any]] = (
            self.window.daemon.get(f"/containers/{self.window.container}/changes") or []
        )
        return [str(change["Path"]) for change in changes if change["Kind"] != DELETED]


def is_plain(mode: int) -> bool:
    """True for a plain file or a folder, by Go's file mode."""
    return bool(mode & IS_DIR) or not mode & NOT_PLAIN


def plain_path(path: str) -> str:
    return posixpath.normpath(path_of(path))


def not_in_the_container(path: str) -> PathNotFound:
    return PathNotFound(f"There is nothing at {path} in the container.", "", "Check the path.")
