"""The schemes that this runner knows, each with the module that fetches it.

A scheme is one module, packed only into jobs that use it, together with what it needs: `find(uri) -> path` where nothing
has to be fetched, else `look(uri, kind, web) -> Found` (transfer.py).
"""

from __future__ import annotations

MODULES = {"": "local", "file": "local", "lustre": "local", "s3": "s3_input"}


def scheme(uri: str) -> str:
    """`s3` of s3://bucket/key; "" of a plain path."""
    head, mark, _ = uri.partition("://")
    return head.lower() if mark and head.replace("_", "").replace("+", "").replace("-", "").isalnum() else ""
