"""Where fetched inputs lie: in the job's own corner of its results, so that the next attempt goes on from what is there."""

from __future__ import annotations

import os

from .transfer import fetch
from .web import Web

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Mapping

    from .document import Input
    from .place import Place
    from .report import Report
    from .transfer import Found


def stage(module: ModuleType, wanted: Input, place: Place, env: Mapping[str, str], report: Report) -> str:  # noqa: ARG001
    """Fetch an input; its absolute path."""
    found: Found = module.look(wanted["uri"], wanted["kind"], Web(env))
    folder = os.path.join(place.own, "inputs", safe(wanted["key"]))
    path = os.path.join(folder, found.name)
    fetch(found.sources, path if found.folder else folder, lambda _bytes, _files: None)
    return path


def safe(key: str) -> str:
    """The key as the name of a folder."""
    return "".join(char if char.isalnum() or char in "._-" else "_" for char in key).strip(".")[-100:] or "input"
