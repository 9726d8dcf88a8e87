"""Near names: the advice of an error about a name that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_SHOWN = 12


def near_name(name: str, known: Iterable[str]) -> str:
    """`Did you mean max_trials?`, or what is known where nothing is near."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"Did you mean {near[0]}?"
    if not names:
        return ""
    rest = ", ..." if len(names) > MOST_SHOWN else ""
    return f"Known are: {', '.join(names[:MOST_SHOWN])}{rest}."
