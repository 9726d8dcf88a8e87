"""The event log: the jobs' events, numbered in the order in which they were written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from tao_sdk.model.job import Event
from tao_sdk.store import listing, records
from tao_sdk.store.database import Database
from tao_sdk.store.job_ids import ID_KNOWN, raise_not_found
from tao_sdk.store.records import EVENT_COLUMNS, NewEvent

INSERT_EVENT = (
    "INSERT INTO events (job_id, time, kind, status, raw, data) VALUES (?, ?, ?, ?, ?, ?)"
)
NEWEST_OF_KIND = (
    f"SELECT {EVENT_COLUMNS} FROM events WHERE job_id = ? AND kind = ? ORDER BY seq DESC LIMIT 1"
)
# The bounds let SQLite use the index that holds the events of hooks alone.
HOOK_EVENTS = (
    "SELECT seq, job_id, data FROM events WHERE kind >= 'hook' AND kind < 'hool' AND kind = ?"
)


def insert_events(db: sqlite3.Connection, events: Iterable[NewEvent]) -> None:
    """Add events inside the caller's transaction. Raises IntegrityError for an unknown job."""
    db.executemany(INSERT_EVENT, map(records.event_row, events))


class EventLog:
    """The events of one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def record_events(self, events: Sequence[NewEvent]) -> list[Event]:
        """Add events, all or none, with consecutive numbers. Raises JobNotFound."""
        try:
            with self._db.write() as db:
                insert_events(db, events)
                (last,) = db.execute("SELECT last_insert_rowid()").fetchone()
        except sqlite3.IntegrityError:
            raise_not_found(self._first_unknown_job(events))
        return [
            Event(number, event.job_id, event.time, event.kind, event.status, event.raw, event.data)
            for number, event in enumerate(events, start=last - len(events) + 1)
        ]

    def _first_unknown_job(self, events: Sequence[NewEvent]) -> str:
        with self._db.read() as db:
            for event in events:
                if not db.execute(ID_KNOWN, (event.job_id,)).fetchone():
                    return event.job_id
        return events[0].job_id

    def read_events(self, job_id: str | None, since: int, limit: int | None) -> list[Event]:
        """At most `limit` events after number `since`, oldest first, of one job or of all."""
        condition, parameters = "seq > ?", [min(since, listing.MOST)]
        if job_id is not None:
            condition, parameters = f"job_id = ? AND {condition}", [job_id, *parameters]
        sql = f"SELECT {EVENT_COLUMNS} FROM events WHERE {condition} ORDER BY seq LIMIT ?"
        with self._db.read() as db:
            rows = db.execute(sql, [*parameters, listing.row_limit(limit)]).fetchall()
        return [records.event_of(row) for row in rows]

    def newest_number(self) -> int:
        """The number of the newest event of all jobs; 0 without events."""
        with self._db.read() as db:
            (newest,) = db.execute("SELECT max(seq) FROM events").fetchone()
        return newest or 0

    def last_event(self, job_id: str, kind: str) -> Event | None:
        """The newest of a job's events of that kind, or None."""
        with self._db.read() as db:
            row = db.execute(NEWEST_OF_KIND, (job_id, kind)).fetchone()
        return records.event_of(row) if row else None

    def jobs_with_undelivered(self, due: str, done: str) -> list[str]:
        """The jobs with an event of kind `due` whose number no event of kind `done` has as `of` in
        its data.
        """
        with self._db.read() as db:
            waiting = {number: job_id for number, job_id, _ in db.execute(HOOK_EVENTS, (due,))}
            if waiting:
                for _, _, data in db.execute(HOOK_EVENTS, (done,)):
                    waiting.pop(json.loads(data).get("of"), None)
        return list(dict.fromkeys(waiting.values()))
