"""Regular expressions that are compiled when they are first used. The package has some two hundred,
a short command such as `tao ls` needs a few of them, and compiling all took an eighth of its time.
"""

from __future__ import annotations

import re
from typing import Any, cast


def lazy_compile(text: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`. An error in `text` is raised when the pattern is first used."""
    return cast("re.Pattern[str]", _LazyPattern(text, flags))


class _LazyPattern:
    """Has each attribute of the compiled pattern, and keeps those that were asked for."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)
        return value
