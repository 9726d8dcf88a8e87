"""Regular expressions that are compiled when they are first used. The package has some two hundred.
A short command such as `tao ls` needs a few of them, and compiling all took an eighth of its time.
"""

from __future__ import annotations

import re
from typing import Any, cast


def lazy_compile(text: str, flags: int = 0) -> re.Pattern[str]:
    """Like `re.compile`. An error in `text` is raised when the pattern is first used."""
    return cast("re.Pattern[str]", _LazyPattern(text, flags))


class _LazyPattern:
    """Gets each attribute from the compiled pattern when it is first used, and stores it."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)
        return value
