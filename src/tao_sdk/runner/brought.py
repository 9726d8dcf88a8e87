"""Outputs of a passthrough job that lie apart from the results: what has to be brought there."""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

    from .document import Copy
    from .place import Place


def brought(copies: List[Copy], place: Place) -> List[Tuple[str, str]]:
    """Path and name of each that has to be brought to the results."""
    found = [(os.path.abspath(each["path"]), each["name"]) for each in copies]
    return [(path, name) for path, name in found if not stays(path, place)]


def stays(source: str, place: Place) -> bool:
    """It is in the results already: it lies in them, though not where the command starts, or they lie in it."""
    folder = place.folder
    if source.startswith(place.work + "/"):
        return False
    return folder == source or folder.startswith(source.rstrip("/") + "/") or source.startswith(folder + "/")


def make_folders(copies: List[Copy]) -> None:
    """A path that ends in a slash is a folder that the command may expect; where it cannot be made, it is the command's."""
    for each in copies:
        if each["path"].endswith("/"):
            with contextlib.suppress(OSError):
                os.makedirs(each["path"], exist_ok=True)
