"""The schemes that this runner knows, each with the module that fetches it.

A scheme is one module with `find(uri) -> path`, packed only into jobs that use it.
"""

from __future__ import annotations

MODULES = {"": "local", "file": "local", "lustre": "local", "slurm": "local"}


def scheme(uri: str) -> str:
    """`s3` of s3://bucket/key; "" of a plain path."""
    head, mark, _ = uri.partition("://")
    return head.lower() if mark and head.replace("_", "").replace("+", "").replace("-", "").isalnum() else ""
