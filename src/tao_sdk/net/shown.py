"""Addresses as they may be shown: without what may be secret in them."""

from __future__ import annotations


def shown(uri: str) -> str:
    """Without a user's name and password, and without a query, which may be a signature."""
    head, mark, rest = uri.partition("://")
    host, slash, path = rest.partition("/")
    if not mark or head.lower().startswith("hf_"):  # an @ there is a revision
        return uri
    return f"{head}{mark}{host.rpartition('@')[2].partition('?')[0]}{slash}{path.partition('?')[0]}"
