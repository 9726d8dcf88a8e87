"""Database: one SQLite file used by many threads and processes at once.

Here: the connection, transactions, waiting for others, and what SQLite's errors mean. Not here: any
table.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from tao_sdk.model.errors import StoreError

T = TypeVar("T")
ChangeMark = tuple[int, int, int]
LOCK_TIMEOUT = 120.0  # seconds to wait while others lock the database, before that is an error

# words in SQLite's message -> what happened, what to do
CAUSES: Mapping[str, tuple[str, str]] = {
    "locked": (
        f"Another process has kept it to itself for {LOCK_TIMEOUT:.0f} s.",
        "See whether a process that uses it is stopped (state T in ps), and continue or end it.",
    ),
    "locking protocol": (
        "The file system does not keep locks, so several processes could spoil it.",
        "Choose a place on a local disk with TAO_SDK_STATE_DIR or state_file.",
    ),
    "disk is full": ("The disk is full; nothing was written.", "Free some space and try again."),
    "disk I/O error": (
        "The file could not be read or written; nothing was changed.",
        (
            "See whether the disk is full, a quota or a file size limit is reached, or the file "
            "system is failing."
        ),
    ),
    "readonly": (
        "The file or its directory is read-only.",
        "Choose another place with TAO_SDK_STATE_DIR or state_file.",
    ),
    "not a database": ("It is some other kind of file.", "Choose another place with state_file."),
    "malformed": (
        "It is damaged.",
        "Restore it from a backup, or move it away to begin a new one.",
    ),
    "unable to open": ("It cannot be opened.", "See whether its directory is there and yours."),
}


class Database:
    """A connection that the threads of a process share. It is opened anew after a fork, and closed
    by `close`.

    `check` gets each new connection before anything is changed through it, and raises for a file
    that is not for us.
    """

    def __init__(
        self, path: Path, *, wal: bool, check: Callable[[sqlite3.Connection], None]
    ) -> None:
        self.path = path
        self.wal = wal
        self._check = check
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._is_exclusive = False
        self._opened = 0  # connections so far
        _open_databases.add(self)

    @contextmanager
    def read(self) -> Generator[sqlite3.Connection]:
        """Yield the connection for one statement. Several statements see one state of the database
        only inside `write`.
        """
        with self._lock, self._raises_store_error(), self._use_connection() as db:
            yield db

    @contextmanager
    def write(self, *, synced: bool = False) -> Generator[sqlite3.Connection]:
        """Run one transaction, which is written whole or not at all. With `synced` it is on disk
        when this returns. Else it survives a crash of this process, but in WAL mode perhaps not of
        the machine.
        """
        with self._lock, self._raises_store_error(), self._use_connection() as db:
            if synced and self.wal:
                db.execute("PRAGMA synchronous = FULL")
            try:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                if synced and self.wal:
                    db.execute("PRAGMA synchronous = NORMAL")

    def change_mark(self) -> ChangeMark:
        """Return a mark that differs from the last one if somebody may have changed the database in
        between.
        """
        with self.read() as db:
            (data_version,) = db.execute("PRAGMA data_version").fetchone()
            return self._opened, data_version, db.total_changes

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self.disconnect()

    def disconnect(self) -> None:
        """Close the connection; the next use opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _use_connection(self) -> Generator[sqlite3.Connection]:
        db = self._get_connection()
        try:
            yield db
        finally:
            if self._is_exclusive and not db.in_transaction:
                self.disconnect()

    def _get_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._closed:
                raise StoreError(f"{self.path} was closed.", "", "Open the store again.")
            self._connection = self._open_connection()
        return self._connection

    def _open_connection(self) -> sqlite3.Connection:
        """Open the file. If a full disk has no room for the index that WAL's readers share, open it
        for this process alone.
        """
        try:
            self._is_exclusive = False
            return self._prepare_connection()
        except sqlite3.OperationalError as error:
            if "disk I/O error" not in str(error):
                raise
            self._is_exclusive = True
            return self._prepare_connection()

    def _prepare_connection(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self.path, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        with ExitStack() as undo:
            undo.callback(db.close)
            locking_mode = "EXCLUSIVE" if self._is_exclusive else "NORMAL"
            db.execute(f"PRAGMA locking_mode = {locking_mode}")
            self._check(db)
            self._choose_journal(db)
            db.execute("PRAGMA foreign_keys = ON")
            undo.pop_all()
        self._opened += 1
        return db

    def _choose_journal(self, db: sqlite3.Connection) -> None:
        """Set WAL if it is requested and possible. A file system that cannot share memory keeps the
        rollback journal.
        """
        wanted = "wal" if self.wal else "delete"
        set_journal = f"PRAGMA journal_mode = {wanted}"
        (mode,) = retry_while_locked(lambda: db.execute(set_journal).fetchone())
        self.wal = mode == "wal"
        synchronous = "NORMAL" if self.wal else "FULL"
        db.execute(f"PRAGMA synchronous = {synchronous}")

    @contextmanager
    def _raises_store_error(self) -> Generator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as error:
            raise store_error(self.path, error) from error

    def before_fork(self) -> None:
        """Take the lock and close the connection, because SQLite's locks do not survive a fork."""
        self._lock.acquire()
        self.disconnect()

    def after_fork(self) -> None:
        self._lock.release()


def store_error(path: Path, error: sqlite3.DatabaseError) -> StoreError:
    """The StoreError for an error of SQLite: its message, what happened and what to do."""
    words = str(error)
    if "unable to open" in words and lies_read_only(path.parent):
        words = "its file system is readonly"
    what = f"The job store {path} cannot be used: {words}."
    for sign, (why, what_to_do) in CAUSES.items():
        if sign in words:
            return StoreError(what, why, what_to_do)
    return StoreError(what, "", "Make a copy of it, then choose another place with state_file.")


def lies_read_only(folder: Path) -> bool:
    """True if the folder is there, on a file system that is mounted read-only."""
    return folder.is_dir() and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def retry_while_locked(action: Callable[[], T]) -> T:
    """Return the result of `action`, retried for LOCK_TIMEOUT seconds while the database is locked.

    SQLite itself does not wait when the journal mode is changed.
    """
    give_up = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(random.uniform(0.001, 0.02))


_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_forking: list[Database] = []


def _before_fork() -> None:
    _forking.extend(_open_databases)
    for database in _forking:
        database.before_fork()


def _after_fork() -> None:
    while _forking:
        _forking.pop().after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
