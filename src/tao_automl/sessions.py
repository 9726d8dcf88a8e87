"""Sessions: the search of an AutoML object, in a file of its own below its workspace.

Here: how a search and its recommendations are kept and found again. Each commit is one transaction
that writes what has changed, so a process that is killed loses nothing that it was told or has
given out. Not here: searches whose trials are jobs, which are kept beside the jobs.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tao_automl.recommendation import Record
from tao_automl.state import Search, search_from_json
from tao_automl.trial import Trial
from tao_sdk.model.errors import UsageError
from tao_sdk.store.database import Database
from tao_sdk.store.file_system import on_network

FOLDER, ENDING = ".automl", ".search"
SESSION_NAME = re.compile(r"[\w][\w.-]*")
TABLES = """
CREATE TABLE IF NOT EXISTS search (one INTEGER PRIMARY KEY CHECK (one = 1), revision INTEGER,
    head TEXT, about TEXT);
CREATE TABLE IF NOT EXISTS trials (number INTEGER PRIMARY KEY, trial TEXT, record TEXT);
"""


@dataclass(frozen=True)
class Kept:
    """What a session holds. `about` is plain JSON of its owner; `revision` counts the commits."""

    search: Search
    records: Mapping[int, Record]
    about: Mapping[str, Any]
    revision: int


class Session:
    """One file, which threads and processes may use at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = Database(path, wal=not on_network(path.parent), check=create_tables)

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(ENDING)

    def load(self) -> Kept | None:
        """What is kept; None where nothing is."""
        with self.database.write() as db:
            return load_kept(db)

    def close(self) -> None:
        self.database.close()


def create_tables(db: sqlite3.Connection) -> None:
    db.executescript(TABLES)


def revision_of(db: sqlite3.Connection) -> int:
    """The number of commits; 0 where nothing is kept."""
    row = db.execute("SELECT revision FROM search").fetchone()
    return row[0] if row else 0


def load_kept(db: sqlite3.Connection) -> Kept | None:
    """What is kept, within a transaction."""
    row = db.execute("SELECT revision, head, about FROM search").fetchone()
    if row is None:
        return None
    revision, head, about = row
    trials: list[dict[str, Any]] = []
    records: dict[int, Record] = {}
    for number, trial, record in db.execute("SELECT * FROM trials ORDER BY number"):
        trials.append(json.loads(trial))
        records[number] = Record.from_json(json.loads(record))
    search = search_from_json({**json.loads(head), "trials": trials})
    return Kept(search, records, json.loads(about), revision)


def write_search(
    db: sqlite3.Connection,
    search: Search,
    about: Mapping[str, Any],
    changed: Iterable[tuple[Trial, Record]],
) -> int:
    """Write the search, within a transaction, with the trials that have changed. Returns the new
    revision.
    """
    revision = revision_of(db) + 1
    head = json.dumps(search.head_to_json())
    db.execute(
        "INSERT OR REPLACE INTO search VALUES (1, ?, ?, ?)", (revision, head, json.dumps(about))
    )
    rows = [
        (trial.number, json.dumps(trial.to_json()), json.dumps(record.to_json()))
        for trial, record in changed
    ]
    db.executemany("INSERT OR REPLACE INTO trials VALUES (?, ?, ?)", rows)
    return revision


def create_session(workspace: Path, name: str) -> Session:
    """A new session. Raises UsageError where there is one of this name."""
    check_name(name)
    folder = workspace / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}{ENDING}"
    if path.exists():
        what = f"{workspace} has a search {name} already."
        raise UsageError(what, "", "Carry it on with resume=True, or use another session_id.")
    return Session(path)


def check_name(name: str) -> None:
    """Raises UsageError for a name that may lead out of the folder, or mean several files."""
    if not SESSION_NAME.fullmatch(name):
        what = f"session_id is {name!r}; it must be letters, digits, '_', '-' and '.'."
        raise UsageError(what)


def find_session(workspace: Path, name: str = "") -> Session:
    """The session of that name, else the newest one. Raises UsageError where there is none."""
    if name:
        check_name(name)
    paths = list((workspace / FOLDER).glob(f"{name or '*'}{ENDING}"))
    if not paths:
        which = f"search {name}" if name else "search"
        what = f"{workspace} has no {which} to carry on."
        raise UsageError(what, "", "Start one with resume=False.")
    return Session(max(paths, key=lambda path: path.stat().st_mtime))
