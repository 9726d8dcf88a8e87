"""Inputs that this machine already has: plain paths, file:// and lustre://. Nothing is copied."""

from __future__ import annotations

import os

from .scheme import scheme


def find(uri: str) -> str:
    """The absolute path that `uri` names, whether or not something is there."""
    path = os.path.abspath(path_of(uri))
    if scheme(uri) == "file" and "%" in path and not os.path.lexists(path):
        from urllib.parse import unquote

        return unquote(path)
    return path


def path_of(uri: str) -> str:
    """The path as it is written: `/a` of file:///a, file://localhost/a, lustre:///a and /a."""
    if not scheme(uri):
        return uri
    rest = uri.partition("://")[2]
    return rest[len("localhost") :] if rest.startswith("localhost/") else rest
