"""Leases and claims: how processes that share a store agree which one acts."""

from __future__ import annotations

import sqlite3
import time

from tao_sdk.store.database import Database
from tao_sdk.store.job_ids import raise_not_found

# A lease taken "in the future" is believed for its own length only: a clock that was set back must
# not keep it for ever.
TAKE_LEASE = """
    INSERT INTO leases (name, owner, taken, seconds) VALUES (:name, :owner, :now, :seconds)
    ON CONFLICT (name) DO UPDATE SET owner = :owner, taken = :now, seconds = :seconds
    WHERE owner = :owner OR :now >= taken + seconds OR :now < taken - seconds"""
CLAIM = "INSERT INTO claims VALUES (?, ?, ?) ON CONFLICT DO NOTHING"


class Leases:
    """The leases and claims in one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def acquire_lease(self, name: str, owner: str, seconds: float) -> bool:
        """Take or renew a lease for `seconds`; False while someone else holds it."""
        lease = {"name": name, "owner": owner, "now": time.time(), "seconds": seconds}
        with self._db.write() as db:
            return db.execute(TAKE_LEASE, lease).rowcount > 0

    def lease_holder(self, name: str) -> str | None:
        """The holder of the lease, or the last holder if it has not given the lease back. None if
        nobody has it.
        """
        with self._db.read() as db:
            row = db.execute("SELECT owner FROM leases WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def is_leased(self, name: str) -> bool:
        """True while somebody's lease has time left."""
        with self._db.read() as db:
            query = "SELECT 1 FROM leases WHERE name = ? AND abs(? - taken) < seconds"
            return db.execute(query, (name, time.time())).fetchone() is not None

    def release_lease(self, name: str, owner: str) -> None:
        """Give a lease back. Someone else's is left alone."""
        with self._db.write() as db:
            db.execute("DELETE FROM leases WHERE name = ? AND owner = ?", (name, owner))

    def claim_once(self, job_id: str, hook: str, key: str) -> bool:
        """True for the first caller ever, in whatever process. The claim is on disk when this
        returns. Raises JobNotFound.
        """
        try:
            with self._db.write(synced=True) as db:
                return db.execute(CLAIM, (job_id, hook, key)).rowcount > 0
        except sqlite3.IntegrityError:
            raise_not_found(job_id)
