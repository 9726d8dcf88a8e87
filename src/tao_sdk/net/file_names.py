"""Names of files made from names of others, which may be longer than a file system takes."""

from __future__ import annotations

import hashlib
import os


def cut(name: str) -> str:
    """As much of it as a file system takes, which counts bytes, with room for what is put to it."""
    return os.fsencode(name)[:200].decode("utf-8", "ignore")


def apart(name: str, short: str) -> str:
    """`short` where it is all of a name; else with what tells it from other names of which that
    could be left.
    """
    return (
        short
        if short == name
        else f"{short}-{hashlib.sha256(ascii(name).encode()).hexdigest()[:12]}"
    )
