"""The status.json of a training: TAO's programs write one JSON line per epoch into their results, whatever they print.

Read on from where the last look ended; only whole lines are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tao_sdk.backends.contract import Files, FileStat, MiB
from tao_sdk.model.errors import PathNotFound, Unreachable

NAME = "status.json"
DEEPEST = 3  # folders below the results: <key>/train/status.json
NOT_RESULTS = frozenset({".tao", "work", "inputs"})
MOST_AT_ONCE = 4 * MiB


@dataclass(frozen=True)
class Place:
    """Which file, and up to which byte it was read."""

    path: str = ""
    offset: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "offset": self.offset}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Place:
        return cls(str(data.get("path", "")), int(data.get("offset", 0)))


def read_on(files: Files, results_dir: str, place: Place) -> tuple[bytes, Place]:
    """(what is new in the newest status.json below the results, where to go on). Nothing where there is none."""
    try:
        newest = max(_found(files, results_dir, DEEPEST), key=lambda stat: stat.mtime, default=None)
        if newest is None:
            return b"", place
        same = newest.path == place.path and newest.size >= place.offset
        offset = place.offset if same else 0
        data = files.read(newest.path, offset, MOST_AT_ONCE)
    except (PathNotFound, Unreachable):
        return b"", place
    whole = data[: data.rfind(b"\n") + 1]
    return whole, Place(newest.path, offset + len(whole))


def _found(files: Files, folder: str, depth: int) -> list[FileStat]:
    found: list[FileStat] = []
    for stat in files.list(folder):
        name = stat.path.rstrip("/").rpartition("/")[2]
        if stat.is_dir and depth and name not in NOT_RESULTS:
            found += _found(files, stat.path, depth - 1)
        elif name == NAME and not stat.is_dir:
            found.append(stat)
    return found
