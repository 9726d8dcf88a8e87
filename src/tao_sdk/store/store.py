"""Store: the jobs that we remember, for any number of threads and processes at once.

Here: the transactions over jobs and attempts. Not here: events (event_log.py), leases and claims
(leases.py), which job a word means (job_ids.py), rows (records.py).

Changing a job is a compare-and-set on its revision, so no two processes undo each other's work. A
decision that is not carried out yet (a job, a further attempt, its ref, a hook's claim) is on disk
before its verb returns. Other changes survive a crash of this process at once, and of the machine a
moment later.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from tao_sdk.model.errors import JobNotFound, KeyInUse, StoreError, UsageError
from tao_sdk.model.job import AttemptRow, Endpoint, Event, Job
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.spec import is_unicode
from tao_sdk.model.status import TERMINAL, Status
from tao_sdk.store import listing, published, records, schema
from tao_sdk.store.database import Database
from tao_sdk.store.event_log import EventLog, insert_events
from tao_sdk.store.file_system import on_network
from tao_sdk.store.job_ids import find_id, ids_named, raise_not_found
from tao_sdk.store.keyring import Keyring
from tao_sdk.store.leases import Leases
from tao_sdk.store.listing import LIVE, Wanted
from tao_sdk.store.live_jobs import LiveJobs
from tao_sdk.store.log_copies import LogCopies
from tao_sdk.store.payload_files import PayloadFiles, split
from tao_sdk.store.private_files import make_directory, make_file, refuse_replaceable
from tao_sdk.store.records import (
    ATTEMPT_COLUMNS,
    JOB_COLUMNS,
    JOB_FIELDS,
    MUTABLE_COLUMNS,
    NewEvent,
)

if TYPE_CHECKING:
    from tao_sdk.model.idempotency import SubmitKey

log = logging.getLogger("tao_sdk.store")
Jobs = list[Job]  # aliases, because in the class `list` is the verb
Attempts = list[AttemptRow]
Events = list[Event]
Ids = list[str]
Endpoints = list[Endpoint]


def _places(columns: str) -> str:
    """One ? for each of the columns."""
    return ", ".join("?" for _ in columns.split(","))


_SET = ", ".join(f"{column} = ?" for column in MUTABLE_COLUMNS)
_IS_TERMINAL = "status IN ({})".format(", ".join(f"'{status.value}'" for status in TERMINAL))
UPDATE_JOB = (
    f"UPDATE jobs SET {_SET}, revision = revision + 1 WHERE id = ? AND revision = ? "
    f"AND (status = ? OR NOT {_IS_TERMINAL})"
)
REOPEN_JOB = (
    f"UPDATE jobs SET {_SET}, revision = revision + 1 WHERE id = ? AND "
    f"revision = ? AND {_IS_TERMINAL}"
)
INSERT_JOB = f"INSERT INTO jobs ({JOB_COLUMNS}) VALUES ({_places(JOB_COLUMNS)})"
INSERT_ATTEMPT = f"INSERT INTO attempts ({ATTEMPT_COLUMNS}) VALUES ({_places(ATTEMPT_COLUMNS)})"
INSERT_KEY = "INSERT INTO idempotency_keys (key, request, job_id) VALUES (?, ?, ?)"
FIND_KEY = "SELECT job_id, request FROM idempotency_keys WHERE key = ?"
FORGET_WAYS = """
    DELETE FROM meta WHERE name GLOB 'way:*'
    AND NOT EXISTS
        (SELECT 1 FROM attempts WHERE 'way:' || platform || '/' || endpoint = meta.name)"""


class Store:
    """The jobs of one database. Raises StoreError if it cannot be used, JobNotFound for an unknown
    id.
    """

    def __init__(self, path: Path, database: Database, store_id: str) -> None:
        self.path = path
        self.store_id = store_id
        self.directory = path.with_name(path.name + ".d")
        self.keyring = Keyring(self.directory / "secrets")
        self.log_copies = LogCopies(self.directory / "logs")
        self._payloads = PayloadFiles(self.directory / "payloads")
        self._db = database
        self._events = EventLog(database)
        self._leases = Leases(database)
        self._live_jobs = LiveJobs(database, self._list_jobs)

    @classmethod
    def open(cls, path: Path, *, wal: bool | None = None) -> Store:
        """Open the store at `path`, and make it if it is not there. `wal` chooses the journal; by
        default the file system decides.

        Refuses symbolic links, files of other users, and directories that others can write to or
        replace.
        """
        path = path.absolute()
        refuse_replaceable(path.parent)
        make_directory(path.parent)
        make_file(path)
        if wal is None:
            wal = not on_network(path.parent)
        database = Database(path, wal=wal, check=lambda db: schema.check(db, path))
        with ExitStack() as undo:
            undo.callback(database.close)
            store = cls(path, database, _prepare(database))
            make_directory(store.directory)
            store._import_published()
            undo.pop_all()
        return store

    def close(self) -> None:
        self._db.close()

    @property
    def database(self) -> Database:
        """The database, for the tables of searches, which lie beside those of jobs."""
        return self._db

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Jobs

    def add(self, job: Job, row: AttemptRow, key: SubmitKey | None = None) -> Job:
        """Store a job, its first attempt and its first event. They are on disk when this returns.
        Raises StoreError for an id in use, KeyInUse for an idempotency key that another job has.
        """
        first = NewEvent(job.id, "status", job.status, job.message, {"attempt": row.attempt.number})
        try:
            with self._insert_transaction() as db:
                self._insert_job(db, job)
                self._insert_attempt(db, row)
                insert_events(db, [first])
                if key is not None:
                    db.execute(INSERT_KEY, (key.text, key.request, job.id))
        except sqlite3.IntegrityError as error:
            if key is not None and self.submitted_with(key.text):
                what = f"The idempotency key {key.text!r} is another job's."
                raise KeyInUse(what, str(error), "Submit it again with the same key.") from error
            raise StoreError(
                f"A job {job.id} is in the store already.", str(error), "Submit it again."
            ) from error
        return self.get(job.id)

    def submitted_with(self, key: str) -> tuple[str, str] | None:
        """Return (the id of the job that was submitted with this idempotency key, the digest of its
        request); None for a key that no job has.
        """
        with self._db.read() as db:
            return db.execute(FIND_KEY, (key,)).fetchone()

    def remove(self, job_id: str) -> None:
        """Remove a job with everything stored of it here: events, attempts, log copies, secrets.
        Unknown ids are fine.
        """
        with self._db.write(synced=True) as db:
            files = db.execute("SELECT sha256 FROM payloads WHERE job_id = ?", (job_id,)).fetchall()
            db.execute("DELETE FROM jobs WHERE id = ?", (job_id,))
        # files last: a crash in between must leave no row without its file
        self._remove_unused([name for (name,) in files])
        self.keyring.forget(job_id)
        self.log_copies.forget(job_id)

    def get(self, job_id: str) -> Job:
        """The job of that id, or the one that `resolve` finds."""
        known = self._find_job(job_id) if is_unicode(job_id) else None
        if known is not None:
            return known
        resolved_id = self.resolve(job_id)
        return self._find_job(resolved_id) or raise_not_found(resolved_id)

    def resolve(self, text: str) -> str:
        """The id of the job that `text` means: its id, else its name, else the start of its id.
        Raises UsageError if it means several.
        """
        refuse_no_text(text)
        with self._db.read() as db:
            return find_id(db, text)

    def named(self, text: str) -> Ids:
        """The ids of the jobs of that name, newest first; only `text` itself if a job has it as its
        id.
        """
        refuse_no_text(text)
        with self._db.read() as db:
            return ids_named(db, text)

    def list(
        self,
        *,
        statuses: Collection[Status] = (),
        platform: str | None = None,
        endpoint: str | None = None,
        labels: Mapping[str, str] = {},
        parent: str | None = None,
        limit: int | None = None,
    ) -> Jobs:
        """The jobs that match all filters, newest first."""
        wanted = Wanted(statuses, platform, endpoint, labels, parent, limit)
        return self._list_jobs(listing.query(wanted))

    def live(self, platform: str | None = None) -> Jobs:
        """The live jobs, newest first, without those that the published SDK started: it alone can
        watch them.
        """
        jobs = self._list_jobs(listing.query(Wanted(LIVE, platform)))
        return [job for job in jobs if not job.imported_from]

    def live_at(self, endpoint: Endpoint) -> Jobs:
        """The live jobs whose newest attempt is at that endpoint."""
        return self._live_jobs.at_endpoint(endpoint)

    def live_endpoints(self) -> Endpoints:
        """The endpoints with live jobs."""
        return self._live_jobs.endpoints()

    def rented_after_end(self) -> Ids:
        """The ids of the ended jobs whose places still cost money."""
        return self._live_jobs.rented_after_end()

    def update(self, job: Job, events: Sequence[NewEvent] = ()) -> Job | None:
        """Store the changeable parts of `job`, with `events`. None, with nothing written, if the
        job was changed meanwhile or has another terminal status: that is final.
        """
        with self._db.write() as db:
            return self._update_job(db, job, events)

    def _update_job(
        self, db: sqlite3.Connection, job: Job, events: Sequence[NewEvent]
    ) -> Job | None:
        key = (job.id, job.revision, job.status.value)
        if db.execute(UPDATE_JOB, (*records.changes_of(job), *key)).rowcount == 0:
            return None
        insert_events(db, events)
        return replace(job, revision=job.revision + 1)

    def _find_job(self, job_id: str) -> Job | None:
        with self._db.read() as db:
            row = db.execute(f"SELECT {JOB_FIELDS} FROM jobs WHERE id = ?", (job_id,)).fetchone()
        return records.job_of(row, self._payloads) if row else None

    def _list_jobs(self, query: listing.Query) -> Jobs:
        with self._db.read() as db:
            rows = db.execute(query.sql, query.parameters).fetchall()
        return [records.job_of(row, self._payloads) for row in rows]

    @contextmanager
    def _insert_transaction(self) -> Generator[sqlite3.Connection]:
        """Run a transaction that may write payload files. It is on disk when this returns; if it
        fails, the files are removed again.
        """
        try:
            with self._db.write(synced=True) as db:
                yield db
        except (StoreError, sqlite3.IntegrityError):
            self._remove_unused(self._payloads.names())
            raise

    def _insert_job(self, db: sqlite3.Connection, job: Job) -> None:
        spec, spec_files = split(job.spec, self._payloads)
        options, option_files = split(job.options, self._payloads)
        number = db.execute(INSERT_JOB, records.job_row(job, spec, options).columns()).lastrowid
        db.executemany(
            "INSERT INTO labels VALUES (?, ?, ?)",
            [(*label, number) for label in job.labels.items()],
        )
        _add_file_references(db, job.id, spec_files + option_files)

    # Attempts

    def attempt(self, job_id: str, number: int | None = None) -> AttemptRow:
        """The attempt of that number, by default the newest."""
        if number is None:
            rows = self._list_attempts("ORDER BY number DESC LIMIT 1", (job_id,))
        else:
            rows = self._list_attempts("AND number = ?", (job_id, number))
        return rows[0] if rows else self._raise_no_attempt(job_id, number)

    def newest_attempts(self, job_ids: Sequence[str]) -> dict[str, AttemptRow]:
        """The newest attempt of each job, by its id; a job without one is left out."""
        rows: Attempts = []
        for some_ids in listing.portions(job_ids):
            rows += self._newest_attempts(some_ids)
        return {row.attempt.job_id: row for row in rows}

    def _newest_attempts(self, job_ids: Sequence[str]) -> Attempts:
        places = ", ".join("?" * len(job_ids))
        sql = (
            f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE (job_id, number) IN "
            f"(SELECT id, attempt FROM jobs WHERE id IN ({places}))"
        )
        with self._db.read() as db:
            rows = db.execute(sql, list(job_ids)).fetchall()
        return [records.attempt_of(row, self._payloads) for row in rows]

    def attempts(self, job_id: str) -> Attempts:
        """The job's attempts, oldest first; none for a job that the published SDK started."""
        return self._list_attempts("ORDER BY number", (job_id,))

    def add_attempt(self, job: Job, row: AttemptRow, events: Sequence[NewEvent] = ()) -> Job | None:
        """Like `update`, with a further attempt in the same transaction. It is on disk when this
        returns.
        """
        try:
            with self._insert_transaction() as db:
                changed = self._update_job(db, job, events)
                if changed is not None:
                    self._insert_attempt(db, row)
                return changed
        except sqlite3.IntegrityError as error:
            raise StoreError(
                f"{job.id} has an attempt {row.attempt.number} already.",
                str(error),
                "Look again:",
                f"tao status {job.id}",
            ) from error

    def reopen(self, job: Job, row: AttemptRow, events: Sequence[NewEvent] = ()) -> Job | None:
        """Like `add_attempt`, for an ended job that is tried again: the one way back from a
        terminal status.
        """
        with self._insert_transaction() as db:
            values = (*records.changes_of(job), job.id, job.revision)
            if not db.execute(REOPEN_JOB, values).rowcount:
                return None
            insert_events(db, events)
            self._insert_attempt(db, row)
        return replace(job, revision=job.revision + 1)

    def confirm(self, ref: Ref) -> None:
        """Store an attempt's ref. It is on disk when this returns."""
        values = (records.to_text(ref.to_json()), ref.attempt.job_id, ref.attempt.number)
        with self._db.write(synced=True) as db:
            sql = "UPDATE attempts SET ref = ? WHERE job_id = ? AND number = ?"
            is_known = db.execute(sql, values).rowcount > 0
        if not is_known:
            raise_not_found(ref.attempt.job_id)

    def save_log_cursor(self, attempt: Attempt, cursor: str) -> None:
        """Store up to where the attempt's log is copied."""
        values = (cursor, attempt.job_id, attempt.number)
        with self._db.write() as db:
            db.execute("UPDATE attempts SET log_cursor = ? WHERE job_id = ? AND number = ?", values)

    def _list_attempts(self, rest: str, values: tuple[Any, ...]) -> Attempts:
        """The attempts of the job `values[0]`; `rest` continues the SQL after that condition."""
        sql = f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE job_id = ? {rest}"
        with self._db.read() as db:
            rows = db.execute(sql, values).fetchall()
        return [records.attempt_of(row, self._payloads) for row in rows]

    def _raise_no_attempt(self, job_id: str, number: int | None) -> NoReturn:
        job = self.get(job_id)
        if source := job.imported_from:
            raise StoreError(
                f"{job.id} was started by the published SDK.",
                f"Only what {source} says of it is known here.",
                "Ask it there, or its backend.",
            )
        raise JobNotFound(f"{job.id} has no attempt {number}.", "", f"Its newest is {job.attempt}.")

    def _insert_attempt(self, db: sqlite3.Connection, row: AttemptRow) -> None:
        plan, files = split(row.plan, self._payloads)
        db.execute(INSERT_ATTEMPT, records.attempt_row(row, plan))
        _add_file_references(db, row.attempt.job_id, files)

    # Events

    def record(self, events: Sequence[NewEvent]) -> Events:
        """Add events, all or none, in their order and with consecutive numbers."""
        return self._events.record_events(events)

    def events(self, job_id: str | None = None, since: int = 0, limit: int | None = None) -> Events:
        """The events after number `since`, oldest first, of one job or of all."""
        return self._events.read_events(job_id, since, limit)

    def newest_event_number(self) -> int:
        """The number of the newest event of all jobs; 0 without events."""
        return self._events.newest_number()

    def last_event(self, job_id: str, kind: str) -> Event | None:
        """The newest of a job's events of that kind, or None."""
        return self._events.last_event(job_id, kind)

    def jobs_with_undelivered(self, due: str, done: str) -> Ids:
        """The jobs with an event of kind `due` whose number no event of kind `done` has as `of` in
        its data.
        """
        return self._events.jobs_with_undelivered(due, done)

    # One process acts

    def acquire(self, name: str, owner: str, seconds: float) -> bool:
        """Take or renew a lease for `seconds`; False while someone else holds it."""
        return self._leases.acquire_lease(name, owner, seconds)

    def lease_holder(self, name: str) -> str | None:
        """The holder of the lease, or the last holder if it has not given the lease back. None if
        nobody has it.
        """
        return self._leases.lease_holder(name)

    def is_leased(self, name: str) -> bool:
        """True while somebody's lease has time left."""
        return self._leases.is_leased(name)

    def release_lease(self, name: str, owner: str) -> None:
        """Give a lease back. Someone else's is left alone."""
        self._leases.release_lease(name, owner)

    def claim(self, job_id: str, hook: str, key: str) -> bool:
        """True for the first caller ever, in whatever process. The claim is on disk when this
        returns.
        """
        return self._leases.claim_once(job_id, hook, key)

    # The ways to endpoints

    def remember_way(self, endpoint: Endpoint, way: Mapping[str, str]) -> None:
        """Store the settings, none of them a secret, with which a later process reaches that
        endpoint.
        """
        if not way or self.way_to(endpoint) == way:
            return
        values = (_meta_name_of(endpoint), records.to_text(way))
        with self._db.write() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", values)

    def way_to(self, endpoint: Endpoint) -> dict[str, str]:
        """The newest settings stored for that endpoint; {} if there are none."""
        settings = self._read_meta(_meta_name_of(endpoint))
        return json.loads(settings) if settings else {}

    # Leftovers

    def sweep(self) -> None:
        """Remove the files that no job needs any more: payloads, secrets and log copies that a
        crash left behind. Forget the ways to endpoints without attempts.
        """
        self._remove_unused(self._payloads.names())
        with self._db.write() as db:
            db.execute(FORGET_WAYS)
        self.keyring.forget_others({job.id for job in self.live()})
        for job_id in self.log_copies.jobs():
            if self._find_job(job_id) is None:
                self.log_copies.forget(job_id)

    def _remove_unused(self, names: Collection[str]) -> None:
        """Remove the files of these names that no job refers to. The write lock is held, so a
        process that is about to refer to a file waits until it is gone, and writes it anew.
        """
        if not names:
            return
        with self._db.write() as db:
            for name in names:
                if not db.execute("SELECT 1 FROM payloads WHERE sha256 = ?", (name,)).fetchone():
                    self._payloads.remove(name)

    def _import_published(self) -> None:
        """Import the jobs of the published SDK's database beside this one, once."""
        source = published.source_of(self.path)
        if source is None or self._read_meta("imported_from") or not published.is_published(source):
            return
        try:
            jobs = published.read_jobs(source)
        except StoreError as error:
            if self.path.name != published.OURS:  # else nobody has asked for them
                raise
            log.warning("its jobs are not taken over: %s", error)
            return
        new_jobs = [job for job in jobs if self._find_job(job.id) is None]
        with self._db.write(synced=True) as db:
            marks = "INSERT OR IGNORE INTO meta VALUES ('imported_from', ?)"
            if not db.execute(marks, (str(source),)).rowcount:
                return  # another process has imported them meanwhile
            for job in new_jobs:
                self._insert_job(db, job)
                insert_events(db, [NewEvent(job.id, "status", job.status, job.message)])

    def _read_meta(self, name: str) -> str | None:
        with self._db.read() as db:
            row = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None


def refuse_no_text(job: object) -> None:
    """Raise UsageError for a Job that a program has passed in place of its id."""
    if not isinstance(job, str):
        what = f"A job is named by its id, not by a {type(job).__name__}."
        id_of = "submission.job.id" if hasattr(job, "job") else "job.id"
        raise UsageError(what, "", f"Pass {id_of}.")


def _meta_name_of(endpoint: Endpoint) -> str:
    return "way:" + "/".join(endpoint)


def _prepare(database: Database) -> str:
    """Bring the database to our version, and return its id."""
    with database.read() as db:
        current = schema.is_current(db)
    if not current:
        with database.write(synced=True) as db:
            schema.migrate(db)
    with database.read() as db:
        return db.execute("SELECT value FROM meta WHERE name = 'store_id'").fetchone()[0]


def _add_file_references(db: sqlite3.Connection, job_id: str, names: Iterable[str]) -> None:
    db.executemany(
        "INSERT OR IGNORE INTO payloads VALUES (?, ?)", [(name, job_id) for name in names]
    )
