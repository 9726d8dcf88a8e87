"""Addresses of data, scheme://where/path or a plain path, and the module that fetches each scheme.

A module of net/ fetches remote data: `look(uri, kind, web) -> Found` (transfer.py). It is packed
only into jobs that use it. Plain paths, file:// and lustre:// are files that this machine already
has: they are not copied.
"""

from __future__ import annotations

import os

MODULES = {
    "": "local",
    "file": "local",
    "lustre": "local",
    "slurm": "local",
    "s3": "s3_source",
    "hf_model": "hub_source",
    "hf_dataset": "hub_source",
    "ngc": "ngc_source",
    "http": "http_file",
    "https": "http_file",
}


def scheme(uri: str) -> str:
    """The scheme: `s3` for s3://bucket/key, "" for a plain path."""
    head, mark, _ = uri.partition("://")
    if mark and head.replace("_", "").replace("+", "").replace("-", "").isalnum():
        return head.lower()
    return ""


def find(uri: str) -> str:
    """The absolute path of a local `uri`, which need not exist."""
    path = os.path.abspath(path_of(uri))
    if scheme(uri) == "file" and "%" in path and not os.path.lexists(path):
        from urllib.parse import unquote

        return unquote(path)
    return path


def path_of(uri: str) -> str:
    """The path as written: `/a` for file:///a, file://localhost/a, lustre:///a and /a."""
    if not scheme(uri):
        return uri
    rest = uri.partition("://")[2]
    return rest[len("localhost") :] if rest.startswith("localhost/") else rest


def shown(uri: str) -> str:
    """The address without a login and without its query, which may be a signature."""
    head, mark, rest = uri.partition("://")
    host, slash, path = rest.partition("/")
    if not mark or head.lower().startswith("hf_"):  # an @ there is a revision
        return uri
    return f"{head}{mark}{host.rpartition('@')[2].partition('?')[0]}{slash}{path.partition('?')[0]}"
