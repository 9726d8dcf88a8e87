"""Full disk: find the disks without room after a job that uses this machine's disks has ended.

A program that fills a disk often fails without naming a path. The candidates are the disks of the
folders that the job names: its results, the folder it starts in, and every path in its command, its
environment and its specs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from tao_sdk.backends.this_machine import room_left
from tao_sdk.model.job import Job
from tao_sdk.model.lazy_pattern import lazy_compile

FULL = 1024 * 1024  # bytes: a disk with less room than that is called full
MOST_PATHS = 200
ABSOLUTE_PATH = lazy_compile(r"(?<![\w.:/])/[^\s'\"=:;|&<>(){}$*?]+")
NAMING_FIELDS = ("command", "env_vars", "specs", "args", "inputs", "outputs", "files")


def full_disks(job: Job, start_folder: str) -> tuple[str, ...]:
    """The mount points without room. `start_folder` is where the command started, or ""."""
    named = [job.results_dir, start_folder, *named_paths(job.spec)]
    folders = (existing_folder(path) for path in named if path.startswith("/"))
    return tuple(dict.fromkeys(mount_point(each) for each in folders if room_left(each) < FULL))


def named_paths(spec: Mapping[str, Any]) -> Iterator[str]:
    """The absolute paths in the job's texts, at most MOST_PATHS."""
    from tao_sdk.model.texts import texts_in

    given = texts_in([spec.get(name) for name in NAMING_FIELDS])
    found = (path for text in given for path in ABSOLUTE_PATH.findall(text))
    return islice(found, MOST_PATHS)


def existing_folder(path: str) -> str:
    """The path, or its nearest parent that exists."""
    return next(str(each) for each in (Path(path), *Path(path).parents) if is_there(each))


def is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long
        return False


def mount_point(folder: str) -> str:
    """The mount point of the folder's disk."""
    place = Path(os.path.realpath(folder))
    return next(str(each) for each in (place, *place.parents) if each.is_mount())
