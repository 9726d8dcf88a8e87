"""Schema: the tables, as the steps that lead from one version to the next.

A database of version n has had the first n steps. A step is never changed once released; a new one
is added.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from tao_sdk.model.errors import StoreError

# "TAO8" in the file's header: ours, and not a database of the published SDK
APPLICATION_ID = 0x54414F38

# The messages of versions that stored no codes -> their codes. Used once, when such a store
# is brought up to date.
OLD_MESSAGES = (
    ("next_attempt", "attempt % waits for a watcher: tao watch"),
    ("attempt_started", "attempt %"),
    ("not_seen", "not seen since: %"),
    ("not_found", "not found at the last look; looking once more"),
    ("removed_outside", "removed outside"),
    ("told_by_record", "ended; the backend no longer has it, its outcome record does"),
    ("submitting", "submitting"),
    ("submitted", "submitted"),
    ("start_unknown", "not known whether it started (%"),
    ("submit_broken", "its submit met an error that nobody foresaw (%"),
    ("canceling", "canceling"),
    ("cancel_failed", "it was to end and could not be told so (%"),
    ("canceled", "canceled"),
    ("never_started", "canceled before it started"),
    ("time_limit", "time limit %reached%"),
    ("supervisor_told_to_end", "%, its supervisor was told to end"),
    ("supervisor_lost", "its supervisor was killed%"),
    ("machine_restarted", "the machine was restarted %"),
    ("container_stopped", "its container was stopped %"),
    ("out_of_memory", "the machine ran out of memory (oom)%"),
    ("out_of_memory", "OOMKilled: %"),
    ("out_of_memory", "out of memory (OOM): %"),
    ("not_started", "it could not be started: %"),
    ("node_failed", "node failed"),
    ("boot_failed", "the node could not be started"),
    ("deadline", "its deadline has passed"),
    ("preempted", "preempted by a job of higher priority"),
    ("script_not_started", "SLURM could not start its script on the node"),
    ("not_launched", "SLURM could not launch it (%"),
    ("script_killed", "the batch script was killed%"),
    ("conversion_failed", "the conversion of the image, for which it waited, has failed%"),
    ("status_file_failed", "the training's status.json says %"),
    ("exit_code", "exit code %"),
    ("exit_unknown", "the exit code is not known"),
    ("signal", "ended by %"),
)


def _code_of_message() -> str:
    quoted = [(code, pattern.replace("'", "''")) for code, pattern in OLD_MESSAGES]
    cases = "".join(f" WHEN message LIKE '{pattern}' THEN '{code}'" for code, pattern in quoted)
    return f"UPDATE jobs SET reason_code = CASE{cases} END"


STEPS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        # `number` grows with time, so it orders a listing. It is the rowid, so every
        # index ends with it
        """CREATE TABLE jobs (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            platform TEXT NOT NULL,
            status TEXT NOT NULL,
            message TEXT NOT NULL,
            attempt INTEGER NOT NULL,
            exit_code INTEGER,
            image TEXT NOT NULL,
            gpu_count INTEGER NOT NULL,
            labels TEXT NOT NULL,
            parent TEXT,
            progress TEXT NOT NULL,
            created TEXT NOT NULL,
            started TEXT,
            ended TEXT,
            seen_at TEXT,
            results_dir TEXT NOT NULL,
            backend_details TEXT NOT NULL,
            spec TEXT NOT NULL,
            options TEXT NOT NULL,
            cancel_asked INTEGER NOT NULL,
            absent_looks INTEGER NOT NULL,
            revision INTEGER NOT NULL)""",
        "CREATE INDEX jobs_by_status ON jobs (status)",
        "CREATE INDEX jobs_by_platform ON jobs (platform, status)",
        "CREATE INDEX jobs_by_parent ON jobs (parent) WHERE parent IS NOT NULL",
        "CREATE INDEX jobs_by_name ON jobs (name)",
        """CREATE TABLE labels (
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            number INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
            PRIMARY KEY (key, value, number)) WITHOUT ROWID""",
        "CREATE INDEX labels_by_job ON labels (number)",
        """CREATE TABLE attempts (
            job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            platform TEXT NOT NULL,
            endpoint TEXT NOT NULL,
            store_id TEXT NOT NULL,
            plan TEXT NOT NULL,
            ref TEXT,
            log_cursor TEXT NOT NULL DEFAULT '',
            PRIMARY KEY (job_id, number))""",
        # AUTOINCREMENT: the number of an event that was removed is never given again
        """CREATE TABLE events (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
            time TEXT NOT NULL,
            kind TEXT NOT NULL,
            status TEXT,
            raw TEXT NOT NULL,
            data TEXT NOT NULL)""",
        "CREATE INDEX events_by_job ON events (job_id)",
        """CREATE TABLE payloads (
            sha256 TEXT NOT NULL,
            job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
            PRIMARY KEY (sha256, job_id)) WITHOUT ROWID""",
        "CREATE INDEX payloads_by_job ON payloads (job_id)",
        """CREATE TABLE leases (
            name TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            taken REAL NOT NULL,
            seconds REAL NOT NULL) WITHOUT ROWID""",
        """CREATE TABLE claims (
            job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
            hook TEXT NOT NULL,
            key TEXT NOT NULL,
            PRIMARY KEY (job_id, hook, key)) WITHOUT ROWID""",
    ),
    (
        # hooks are few among the events, and are searched for in the whole store
        "CREATE INDEX events_of_hooks ON events (kind) WHERE kind >= 'hook' AND kind < 'hool'",
    ),
    (
        "ALTER TABLE jobs ADD COLUMN reason_code TEXT",
        "ALTER TABLE jobs ADD COLUMN next_attempt_at TEXT",
        _code_of_message(),
        # 5 s after the look that saw the first attempt fail, 10 s after the second's, ... at most
        # 300
        """UPDATE jobs SET next_attempt_at = strftime('%Y-%m-%dT%H:%M:%f+00:00',
            coalesce(seen_at, 'now'), min(300, 5 * (1 << min(attempt - 1, 10))) || ' seconds')
            WHERE status = 'Pending' AND reason_code = 'next_attempt'""",
    ),
    (
        """CREATE TABLE idempotency_keys (
            key TEXT PRIMARY KEY,
            request TEXT NOT NULL,
            job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE) WITHOUT ROWID""",
        "CREATE INDEX idempotency_keys_by_job ON idempotency_keys (job_id)",
    ),
    (
        # searches of tao_automl, whose jobs have the search's id as their parent
        """CREATE TABLE searches (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            status TEXT NOT NULL,
            message TEXT NOT NULL,
            created TEXT NOT NULL,
            ended TEXT,
            seconds REAL NOT NULL,
            round INTEGER NOT NULL,
            stop_asked TEXT NOT NULL,
            head TEXT NOT NULL,
            template TEXT NOT NULL,
            revision INTEGER NOT NULL)""",
        "CREATE INDEX searches_by_name ON searches (name)",
        """CREATE TABLE search_trials (
            search TEXT NOT NULL REFERENCES searches (id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            trial TEXT NOT NULL,
            PRIMARY KEY (search, number)) WITHOUT ROWID""",
    ),
    (
        # jobs whose places cost money are few, and every look searches for those that have ended
        "CREATE INDEX rented_jobs ON jobs (status) WHERE instr(backend_details, '\"rented\"')",
    ),
)
VERSION = len(STEPS)


def migrate(db: sqlite3.Connection) -> None:
    """Bring the database to this version, inside the caller's transaction."""
    version = _read_pragma(db, "user_version")
    for number, step in enumerate(STEPS[version:], start=version + 1):
        for statement in step:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {number}")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute("INSERT OR IGNORE INTO meta VALUES ('store_id', ?)", (os.urandom(8).hex(),))


def is_current(db: sqlite3.Connection) -> bool:
    return (
        _read_pragma(db, "application_id") == APPLICATION_ID
        and _read_pragma(db, "user_version") == VERSION
    )


def check(db: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError for a database of another program, and for one of a version that we do not
    know.
    """
    # read first: others may be making the tables now
    used = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
    ours = _read_pragma(db, "application_id") == APPLICATION_ID
    version = _read_pragma(db, "user_version")
    if used and not ours:
        raise StoreError(
            f"{path} is a database of another program.",
            "Jobs are not written into it.",
            "Choose another place with state_file.",
        )
    if ours and version > VERSION:
        raise StoreError(
            f"{path} was written by a newer tao_sdk: its schema is "
            f"{version}, this one knows {VERSION}.",
            "Writing to it could spoil it.",
            "Upgrade nvidia-tao-sdk, or choose another place with state_file.",
        )


def _read_pragma(db: sqlite3.Connection, name: str) -> int:
    return db.execute(f"PRAGMA {name}").fetchone()[0]
