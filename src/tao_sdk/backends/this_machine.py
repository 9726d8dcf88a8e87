"""This machine, for all backends: its name, GPUs and free disk space, and its files."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import shutil
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tao_sdk.backends.below import Below, LeadsOut, refuse_endless
from tao_sdk.backends.contract import Files, FileStat
from tao_sdk.model.errors import PathNotFound, Unreachable
from tao_sdk.net.address import find
from tao_sdk.transports.process import NotStarted, output

if TYPE_CHECKING:
    from tao_sdk.model.machines import Gpu

NVIDIA_SMI_SECONDS = 30.0  # a sleeping driver takes seconds to wake
BLOCK = 512  # bytes that st_blocks counts in
# a file became a folder, a link or a socket while it was opened
SWAPPED = (errno.EISDIR, errno.ELOOP, errno.ENXIO)


def gpus_here(environ: Mapping[str, str]) -> tuple[tuple[Gpu, ...], str]:
    """Return (the GPUs that nvidia-smi shows, "") or (no GPUs, why it cannot show them)."""
    from tao_sdk.model.machines import GPU_QUERY, parse_gpus

    if shutil.which(GPU_QUERY[0], path=environ.get("PATH", os.defpath)) is None:
        return (), "nvidia-smi is not installed here."
    try:
        return tuple(parse_gpus(output(GPU_QUERY, environ, NVIDIA_SMI_SECONDS))), ""
    except NotStarted as failed:
        return (), f"nvidia-smi: {failed}"


def free_here(path: str) -> int | None:
    """Bytes free on the disk of a folder; None if they cannot be read."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def this_machine() -> str:
    """This machine's name: the host name, and a digest of its machine-id if it has one.

    The name stays the same after a restart.
    """
    try:
        machine = Path("/etc/machine-id").read_bytes().strip()
    except OSError:
        return os.uname().nodename
    return f"{os.uname().nodename}-{hashlib.sha256(machine).hexdigest()[:8]}"


def room_left(folder: str) -> float:
    """Bytes free on the disk of a folder; infinity if they cannot be read."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return math.inf


class LocalFiles:
    """Files by plain paths and file:// addresses that a person names. Follows links."""

    def stat(self, path: str) -> FileStat:
        with looking(path):
            # os.stat keeps the path as text
            return file_stat(find(path), os.stat(find(path)))  # noqa: PTH116

    def list(self, path: str) -> list[FileStat]:
        """List a folder, sorted by path. A file is listed as itself."""
        with looking(path):
            folder = Path(find(path))
            if not folder.is_dir():
                return [self.stat(path)]
            with os.scandir(folder) as entries:
                found = [seen for entry in entries if (seen := entry_stat(entry))]
        return sorted(found, key=lambda each: each.path)

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        with looking(path), open(find(path), "rb", opener=only_files) as file:
            file.seek(offset)
            return file.read(-1 if limit is None else limit)

    def below(self, folder: str) -> Files:
        return ResultFiles(folder)


class ResultFiles:
    """Files below a folder that a job writes to. Follows no link out of the folder.

    Takes paths that begin with the folder's path.
    """

    def __init__(self, folder: str) -> None:
        self.root = Below(find(folder))

    def stat(self, path: str) -> FileStat:
        path = whole(path)
        with looking_below(path), self.root.at(self._inside(path)) as spot:
            return file_stat(path, spot.seen)

    def list(self, path: str) -> list[FileStat]:
        """List a folder, sorted by path. A file is listed as itself.

        A link that leads nowhere, or out of the folder, is listed as the link.
        """
        path = whole(path)
        with looking_below(path), self.root.at(self._inside(path)) as spot:
            if not spot.is_dir:
                return [file_stat(path, spot.seen)]
            folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=spot.folder)
            try:
                with os.scandir(folder) as entries:
                    seen = [
                        self._entry(f"{path.rstrip('/')}/{entry.name}", entry) for entry in entries
                    ]
            finally:
                os.close(folder)
        return sorted((each for each in seen if each), key=lambda each: each.path)

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        with looking_below(path), self.root.reading(self._inside(path)) as file:
            file.seek(offset)
            # a read takes memory for its whole limit
            left = max(os.fstat(file.fileno()).st_size - offset, 0)
            return file.read(left if limit is None else min(left, limit))

    def next_data(self, path: str, offset: int) -> int:
        with looking_below(path), self.root.reading(self._inside(path)) as file:
            try:
                return os.lseek(file.fileno(), offset, os.SEEK_DATA)
            except OSError as error:
                only_holes = error.errno == errno.ENXIO  # else this file system cannot say
                return max(offset, os.fstat(file.fileno()).st_size) if only_holes else offset

    def below(self, folder: str) -> Files:
        return ResultFiles(folder)

    def _inside(self, path: str) -> str:
        inside = self.root.inside(whole(path))
        if inside is None:
            raise LeadsOut.of_path(path)
        return inside

    def _entry(self, path: str, entry: os.DirEntry[str]) -> FileStat | None:
        """The stat of a folder's entry; None if the file has vanished meanwhile."""
        try:
            if entry.is_symlink():
                with suppress(OSError), self.root.at(self._inside(path)) as spot:
                    leads_to = f"{self.root.path}/{spot.below}".rstrip("/") if spot.is_dir else ""
                    return replace(file_stat(path, spot.seen), leads_to=leads_to)
            return file_stat(path, entry.stat(follow_symlinks=False))
        except FileNotFoundError:
            return None


def whole(path: str) -> str:
    """The absolute path. An absolute path stays unchanged."""
    return path if path.startswith("/") else os.path.abspath(path)  # noqa: PTH100  keeps links


def only_files(path: str, flags: int) -> int:
    """Open a path for reading, unless it is a pipe, a socket or a device.

    Reading a pipe would block, and a device may have no end. Raises PathNotFound for these.
    """
    try:
        refuse_endless(os.stat(path), path)  # noqa: PTH116
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathNotFound(
                f"not a file: {path} (a link that leads back to itself)",
                "",
                "Name the file itself.",
            ) from None
        raise
    return os.open(path, flags | os.O_NONBLOCK)


def entry_stat(entry: os.DirEntry[str]) -> FileStat | None:
    """The stat of a folder's entry; None if the file has vanished meanwhile.

    A link that leads nowhere, or to itself, is shown as the link.
    """
    try:
        seen = file_stat(entry.path, entry.stat())
        return (
            replace(seen, leads_to=os.path.realpath(entry.path))
            if seen.is_dir and entry.is_symlink()
            else seen
        )
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
    try:
        return file_stat(entry.path, entry.stat(follow_symlinks=False))
    except FileNotFoundError:
        return None


def file_stat(path: str, seen: os.stat_result) -> FileStat:
    is_dir = stat.S_ISDIR(seen.st_mode)
    return FileStat(
        path, is_dir, 0 if is_dir else seen.st_size, seen.st_mtime, on_disk=seen.st_blocks * BLOCK
    )


@contextmanager
def looking(path: str) -> Generator[None]:
    try:
        yield
    except PathNotFound:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise PathNotFound(f"There is nothing at {path}.", "", "Check the path.") from None
    except OSError as error:
        raise Unreachable(
            f"{path} cannot be looked at: {error.strerror}.", "", "Check its permissions."
        ) from error


@contextmanager
def looking_below(path: str) -> Generator[None]:
    """As `looking`, for files that a job may swap for something else while they are opened."""
    with looking(path):
        try:
            yield
        except OSError as error:
            if error.errno in SWAPPED:
                raise PathNotFound(
                    f"not a file: {path} (another thing was put in its place)",
                    "",
                    "List the folder anew.",
                ) from None
            raise
