"""Store: the searches beside the jobs, in the one SQLite file. It is the truth about a search.

Here: the rows and their transactions. Each change is one transaction that is on disk when its
method returns, and a compare-and-set on the revision. Not here: the tables, which are in the schema
of the SDK's store, and the jobs of trials, which have the search's id as their parent.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tao_automl.near import near_name
from tao_automl.state import search_from_json
from tao_automl.stored import StoredSearch
from tao_automl.template import Template
from tao_automl.trial import Trial
from tao_sdk.model.clock import from_iso, to_iso, utc_now
from tao_sdk.model.errors import JobNotFound, SeveralJobs
from tao_sdk.store import Store

if TYPE_CHECKING:
    from tao_sdk.client import Client

COLUMNS = (
    "id, name, created, ended, seconds, round, stop_asked, head, template, revision, status, "
    "message"
)
INSERT = f"INSERT INTO searches ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
UPDATE = """UPDATE searches SET ended = ?, seconds = ?, round = ?, stop_asked = ?, head = ?,
    status = ?, message = ?, revision = revision + 1 WHERE id = ? AND revision = ?"""
PUT_TRIAL = "INSERT OR REPLACE INTO search_trials (search, number, trial) VALUES (?, ?, ?)"
TRIALS = "SELECT trial FROM search_trials WHERE search = ? ORDER BY number"


class SearchNotFound(JobNotFound):
    """No search of that id or name."""

    code = "automl.search_not_found"


def removed(search_id: str) -> SearchNotFound:
    return SearchNotFound(f"search {search_id} was removed", "", "List them:", "tao automl ls")


class SearchStore:
    """The searches of one store. Raises StoreError where it cannot be used."""

    def __init__(self, store: Store) -> None:
        self._db = store.database

    def add(self, stored: StoredSearch) -> StoredSearch:
        """Keep a new search."""
        with self._db.write(synced=True) as db:
            db.execute(INSERT, columns_of(stored))
            put_trials(db, stored.id, stored.search.trials)
        return stored

    def save(self, stored: StoredSearch, changed: Iterable[Trial]) -> StoredSearch | None:
        """Keep the search and its changed trials. None, with nothing written, if another process
        has changed it since it was read.
        """
        head = json.dumps(head_of(stored))
        values = (
            to_iso(stored.ended), stored.seconds, stored.round, stored.stop_asked, head,
            stored.status, stored.message, stored.id, stored.revision,
        )  # fmt: skip
        with self._db.write(synced=True) as db:
            if not db.execute(UPDATE, values).rowcount:
                return None
            put_trials(db, stored.id, changed)
        return replace(stored, revision=stored.revision + 1)

    def get(self, word: str) -> StoredSearch:
        """The search of that id or name, or whose id starts so. Raises SearchNotFound, and
        SeveralJobs where several are meant.
        """
        return self._read(self.resolve(word))

    def _read(self, search_id: str) -> StoredSearch:
        with self._db.read() as db:
            row = db.execute(
                f"SELECT {COLUMNS} FROM searches WHERE id = ?", (search_id,)
            ).fetchone()
            trials = db.execute(TRIALS, (search_id,)).fetchall()
        if row is None:
            raise removed(search_id)
        return stored_of(row, [trial for (trial,) in trials])

    def resolve(self, word: str) -> str:
        """The id of the search that a word means: its id, else its name, else the start of its
        id.
        """
        with self._db.read() as db:
            known = db.execute("SELECT id, name FROM searches ORDER BY number DESC").fetchall()
        ids = [each for each, _ in known]
        if word in ids:
            return word
        named = [each for each, name in known if name == word]
        matches = named or [each for each in ids if word and each.startswith(word)]
        if not matches:
            next = near_name(word, ids) if ids else "Start one:"
            command = "" if ids else "tao automl run search.yaml"
            raise SearchNotFound(f"no such search: {word!r}", "", next, command)
        if len(matches) > 1:
            raise SeveralJobs.of(word, matches)
        return matches[0]

    def newest(self) -> StoredSearch | None:
        """The newest search, or None."""
        with self._db.read() as db:
            row = db.execute("SELECT id FROM searches ORDER BY number DESC LIMIT 1").fetchone()
        return self._read(row[0]) if row else None

    def list(self) -> list[StoredSearch]:
        """All searches, the newest first."""
        with self._db.read() as db:
            ids = db.execute("SELECT id FROM searches ORDER BY number DESC").fetchall()
        return [self._read(each) for (each,) in ids]

    def unended(self) -> list[str]:
        """The ids of the searches that are not over and that any process can carry on, the oldest
        first.
        """
        with self._db.read() as db:
            query = "SELECT id, head FROM searches WHERE ended IS NULL ORDER BY number"
            heads = db.execute(query).fetchall()
        return [each for each, head in heads if not json.loads(head).get("needs_caller")]

    def mark(self, search_id: str) -> tuple[int, str]:
        """The revision of a search, and why somebody wants it to end. Raises SearchNotFound."""
        with self._db.read() as db:
            query = "SELECT revision, stop_asked FROM searches WHERE id = ?"
            row = db.execute(query, (search_id,)).fetchone()
        if row is None:
            raise removed(search_id)
        return row

    def ask_stop(self, search_id: str, reason: str) -> None:
        """Note that the search is to end. Its driver sees it at its next look."""
        with self._db.write(synced=True) as db:
            ask = "UPDATE searches SET stop_asked = ?, revision = revision + 1 WHERE id = ?"
            db.execute(ask, (reason, search_id))

    def remove(self, search_id: str) -> None:
        """Forget a search and its trials; not their jobs. An unknown id is fine."""
        with self._db.write(synced=True) as db:
            db.execute("DELETE FROM searches WHERE id = ?", (search_id,))


def searches_of(client: Client) -> SearchStore:
    """The searches of a client's store."""
    return SearchStore(client.store)


def put_trials(db: sqlite3.Connection, search_id: str, trials: Iterable[Trial]) -> None:
    rows = [(search_id, trial.number, json.dumps(trial.to_json())) for trial in trials]
    db.executemany(PUT_TRIAL, rows)


def columns_of(stored: StoredSearch) -> tuple[Any, ...]:
    return (
        stored.id, stored.name, to_iso(stored.created), to_iso(stored.ended), stored.seconds,
        stored.round, stored.stop_asked, json.dumps(head_of(stored)),
        json.dumps(stored.template.to_json()), stored.revision, stored.status, stored.message,
    )  # fmt: skip


def head_of(stored: StoredSearch) -> dict[str, Any]:
    """All of the search but its trials, which have rows of their own."""
    again = [list(pair) for pair in stored.again.items()]
    return {
        **stored.search.head_to_json(),
        "again": again,
        "needs_caller": stored.needs_caller,
    }


def stored_of(row: tuple[Any, ...], trials: list[str]) -> StoredSearch:
    id, name, created, ended, seconds, round, stop_asked, head, template, revision, *_ = row
    data = json.loads(head)
    return StoredSearch(
        id=id,
        name=name,
        search=search_from_json({**data, "trials": [json.loads(trial) for trial in trials]}),
        template=Template.from_json(json.loads(template)),
        created=from_iso(created) or utc_now(),
        ended=from_iso(ended),
        seconds=seconds,
        round=round,
        stop_asked=stop_asked,
        again=dict(data["again"]),
        needs_caller=data.get("needs_caller", False),  # older ones do not have it
        revision=revision,
    )
