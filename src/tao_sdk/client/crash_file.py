"""Crash file: the details of an unexpected error, in a private file that a person can send."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tao_sdk.model.settings import Settings
from tao_sdk.store.private_files import make_folders


def keep_crash(text: str) -> Path:
    """Write the text to a private file and return the file. The secrets have to be removed from the
    text before. Raises OSError, TaoError.
    """
    folder = Settings.load().state_dir / "crashes"
    make_folders(folder)
    handle, name = tempfile.mkstemp(prefix="crash-", suffix=".txt", dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return Path(name)
