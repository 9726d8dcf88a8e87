"""Drives a search by one process after the other, each of which kills itself right after its next
commit, until the search is over.

Run as: -m support.search_crash STATE_FILE SEARCH. Prints how many were killed.
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

MOST_DEATHS = 200
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


def drive_once(state_file: str, search: str) -> None:
    with Client(state_file) as client:
        Database.write = last_write  # pyright: ignore[reportAttributeAccessIssue]
        drive(client, search)


def main() -> None:
    """Forks for each driver, so that none has to load what it needs."""
    state_file, search = sys.argv[1:]
    deaths = 0
    while True:
        child = os.fork()
        if child == 0:
            drive_once(state_file, search)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != -signal.SIGKILL:
            print(deaths)
            sys.exit(code)
        deaths += 1
        if deaths > MOST_DEATHS:
            sys.exit("it never ends")


if __name__ == "__main__":
    main()
