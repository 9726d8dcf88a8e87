"""Placeholders: the names in braces of a command, as text.

Not here: how values take their place (commands.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

CONFIG_PATH = "{config_path}"


def names_in_braces(command: str) -> list[str]:
    """Each {name} of a command that is no ${variable}."""
    return re.findall(r"(?<!\$)\{([A-Za-z_][\w-]*)\}", command)


def misspelt(command: str, known: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each {name} of a command that is nearly one of the `known`, with the known one. Such a {name}
    stays as it is, which is hardly meant.
    """
    names = names_in_braces(command)
    if not names:
        return
    from difflib import get_close_matches

    known = list(known)
    for name in dict.fromkeys(names):
        meant = get_close_matches(name, known, n=1, cutoff=0.8)
        if meant and name not in known:
            yield name, meant[0]
