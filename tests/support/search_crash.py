"""Drives a search in a process that kills itself right after its next commit.

Run as: -m support.search_crash STATE_FILE SEARCH. It exits with 0 if the search is over.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tao_automl.drive import drive
from tao_sdk import Client
from tao_sdk.store.database import Database

whole_write = Database.write


@contextmanager
def last_write(self: Database, *, synced: bool = False) -> Generator[Any]:
    """A transaction; after one that is synced, the process is gone."""
    with whole_write(self, synced=synced) as db:
        before = db.total_changes
        yield db
        changed = db.total_changes > before
    if synced and changed:
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    state_file, search = sys.argv[1:]
    with Client(state_file) as client:
        Database.write = last_write  # pyright: ignore[reportAttributeAccessIssue]
        drive(client, search)


if __name__ == "__main__":
    main()
