"""Folders as plain data, so that two can be compared."""

from __future__ import annotations

from pathlib import Path


def tree(folder: str | Path) -> dict[str, bytes]:
    """Path below the folder -> content of every file, hidden ones included."""
    top = Path(folder)
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file()
    }
