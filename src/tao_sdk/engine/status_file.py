"""The status.json of a training: TAO's programs write one JSON line per epoch into their results,
whatever they print.

Reading continues where the last look ended, and takes only whole lines.
"""

from __future__ import annotations

from itertools import islice

from tao_sdk.backends.contract import Files, FileStat, MiB
from tao_sdk.model.errors import PathNotFound, Unreachable
from tao_sdk.model.log_reading import FilePlace

NAME = "status.json"
DEEPEST = 3  # folders below the results: <key>/train/status.json
MOST_FOLDERS = 200  # to search: a look at one job must not keep the others waiting
NOT_RESULTS = frozenset({".tao", "work", "inputs"})
MOST_AT_ONCE = 4 * MiB


def read_on(files: Files, results_dir: str, place: FilePlace) -> tuple[bytes, FilePlace]:
    """Return (the new lines of the newest status.json below the results, where to continue). No
    lines if there is no such file.
    """
    try:
        newest = max(_found(files, results_dir), key=lambda stat: stat.mtime, default=None)
        if newest is None:
            return b"", place
        same = newest.path == place.path and newest.size >= place.offset
        offset = place.offset if same else 0
        data = files.read(newest.path, offset, MOST_AT_ONCE)
    except (PathNotFound, Unreachable):
        return b"", place
    whole = data[: data.rfind(b"\n") + 1] if len(data) < MOST_AT_ONCE or b"\n" in data else data
    return whole, FilePlace(newest.path, offset + len(whole))


def _found(files: Files, results_dir: str) -> list[FileStat]:
    """Every status.json below the results, those in higher folders first."""
    found: list[FileStat] = []
    folders = [(results_dir, 0)]
    for folder, depth in islice(folders, MOST_FOLDERS):
        for stat in files.list(folder):
            name = stat.path.rstrip("/").rpartition("/")[2]
            if stat.is_dir and depth < DEEPEST and name not in NOT_RESULTS:
                folders.append((stat.path, depth + 1))
            elif name == NAME and not stat.is_dir:
                found.append(stat)
    return found
