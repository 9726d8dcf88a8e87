"""Folder: where the bench keeps what it makes, on the disk of the repository and not on a file
system in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "bench"


@contextmanager
def scratch() -> Generator[Path]:
    """A folder that is gone afterwards."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        yield Path(folder)
