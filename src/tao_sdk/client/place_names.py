"""Place names: the names that a person may write for a platform, and what they mean. Quick: no
backend is asked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tao_sdk.backends.by_name import (
    TOOLS,
    NotBuilt,
    backend_class,
    endpoints,
    is_known,
    platform_at,
    platform_name,
    platforms,
)
from tao_sdk.model.errors import MissingExtra
from tao_sdk.model.settings import Settings

NAMED = re.compile(r"""^platform:[ \t]*["']?([\w-]+)""", re.MULTILINE)  # in a job file

PLATFORM_TOOLS = TOOLS


def place_names() -> list[str]:
    """The platforms that can be used here, and the endpoints of config.yaml."""
    return [*platforms(), *endpoints(Settings.load())]


def platform_of(place: str) -> str:
    """The platform that a name means. Raises UsageError for a name that is neither a platform nor
    an endpoint.
    """
    return platform_at(place, Settings.load())


def platform_like(word: str) -> str:
    """The platform that the word names, by any of its names; "" for another word."""
    return platform_name(word) if is_known(word) else ""


def options_class(platform: str) -> type[Any] | None:
    """The Options of a platform; None if this installation does not have it."""
    try:
        return backend_class(platform).Options
    except (NotBuilt, MissingExtra):
        return None


def place_in_file(path: Path) -> str:
    """The place that the job file names. "" if it names none, or one that its reader will
    refuse.
    """
    named = NAMED.search(path.read_text(errors="replace"))
    if named is None:
        return ""
    if is_known(named[1]) or named[1] in endpoints(Settings.load()):
        return named[1]
    return ""
