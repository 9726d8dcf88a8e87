"""File names made from other names, which may be longer than a file system allows."""

from __future__ import annotations

import hashlib
import os


def cut(name: str) -> str:
    """The start of a name, at most 200 bytes: a file system's limit, less room for an ending."""
    return os.fsencode(name)[:200].decode("utf-8", "ignore")


def apart(name: str, short: str) -> str:
    """`short` if it is the whole name; else `short` and the start of the name's SHA-256."""
    if short == name:
        return short
    return f"{short}-{hashlib.sha256(ascii(name).encode()).hexdigest()[:12]}"
