"""Stray files: files that a job wrote into its start folder on this machine, and not into its
results. Bounded: a large folder is looked at in part only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from tao_sdk.client.results import written_files
from tao_sdk.engine.curve_file import CURVE
from tao_sdk.model.errors import TaoError
from tao_sdk.model.job import Job

if TYPE_CHECKING:
    from tao_sdk.client.client import Client
    from tao_sdk.client.results import Results

MOST_ENTRIES = 500  # in the folder, and in each folder in it
MOST_FOLDERS = 50  # folders to look into
SHOWN = 5  # names
OUTPUT_SUFFIXES = (".log", ".out")  # the caller's own `| tee run.log`, nohup.out


@dataclass(frozen=True)
class StrayFiles:
    """Names in `folder` that are newer than the start of the job; folders end with a slash."""

    folder: str
    names: tuple[str, ...]

    @property
    def words(self) -> str:
        """Name the files, and say how to keep such files among the results."""
        named = ", ".join(self.names[:SHOWN])
        more = len(self.names) - SHOWN
        if more > 0:
            named += f" and {more} more"
        return (
            f"Nothing is in the job's results. Newer than its start in {self.folder}: {named}. "
            "To have a program's files among its results, let it write below $TAO_RESULTS_DIR "
            "({results_dir} in args and specs), or name them: --outputs PATH"
        )


def stray_files(client: Client, job: Job, results: Results | None) -> StrayFiles | None:
    """The files that the job may have written into its start folder. None if its results have
    files, or if it started in a folder of its own or elsewhere.
    """
    if results is None or job.started is None or job.spec.get("files"):
        return None
    written = written_files(results.files, results.inputs, results.dir)
    if any(PurePath(path).name != CURVE for path, _, _ in written):
        return None
    try:
        folder = client.store.attempt(job.id).start_folder
    except TaoError:
        return None
    if not folder or folder == "/":  # there everybody writes, and cron starts jobs
        return None
    began = job.newest_start or job.started
    names = tuple(sorted(_newer_names(folder, began.timestamp(), job.results_dir)))
    return StrayFiles(folder, names) if names else None


def _newer_names(folder: str, began: float, results_dir: str) -> Iterator[str]:
    folders = 0
    own_output = _output_inodes()
    for entry in _entries(folder):
        if is_passed_over(entry.name) or PurePath(results_dir).is_relative_to(entry.path):
            continue
        if not _is_folder(entry):
            if _is_newer(entry, began) and entry.inode() not in own_output:
                yield entry.name
            continue
        folders += 1
        if folders > MOST_FOLDERS:
            continue
        inner = (each for each in _entries(entry.path) if not is_passed_over(each.name))
        if any(_is_newer(each, began) for each in inner):
            yield f"{entry.name}/"


def is_passed_over(name: str) -> bool:
    """True for a name that is never a result."""
    return name.startswith(".") or name == "__pycache__" or name.endswith(OUTPUT_SUFFIXES)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """The first MOST_ENTRIES entries; none for a folder that cannot be read."""
    try:
        with os.scandir(Path(folder)) as entries:
            return list(islice(entries, MOST_ENTRIES))
    except OSError:
        return []


def _output_inodes() -> set[int]:
    """The inodes of the files that the caller sends this process's own output to."""
    inodes: set[int] = set()
    for descriptor in (1, 2):
        with suppress(OSError):
            inodes.add(os.fstat(descriptor).st_ino)
    return inodes


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_newer(entry: os.DirEntry[str], began: float) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_mtime >= began
    except OSError:
        return False
