"""Keyring: the secrets of live jobs, one 0600 file per job, so that a retry can hand them over
again.

They lie beside the database and never in it, and are deleted when the job ends.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from tao_sdk.store.private_files import explained, name_in, write_whole

GRACE_SECONDS = 3600.0  # within them, a submit has written its job's row


class Keyring:
    """The secrets of the jobs of one store."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def save(self, job_id: str, values: Mapping[str, str]) -> None:
        """Store `values` in place of the job's earlier ones. They are on disk when this returns."""
        write_whole(self._secrets_file(job_id), json.dumps(dict(values)).encode())

    def load(self, job_id: str) -> dict[str, str]:
        """The stored secrets of the job; {} if there are none."""
        path = self._secrets_file(job_id)
        with explained(path):
            try:
                return json.loads(path.read_bytes())
            except FileNotFoundError:
                return {}

    def forget(self, job_id: str) -> None:
        """Delete the job's secrets, if there are any. Raises StoreError."""
        path = self._secrets_file(job_id)
        with explained(path):
            path.unlink(missing_ok=True)

    def forget_others(self, live: Collection[str], grace: float = GRACE_SECONDS) -> None:
        """Delete the secrets of jobs that are not `live`, if they are older than `grace` seconds.

        Newer ones may belong to a submit, which saves secrets before its job's row.
        """
        live_names = {self._secrets_file(job_id).name for job_id in live}
        oldest_kept = time.time() - grace
        with explained(self.directory):
            if not self.directory.is_dir():
                return
            for path in self.directory.iterdir():
                if path.name not in live_names and path.stat().st_mtime <= oldest_kept:
                    path.unlink(missing_ok=True)

    def _secrets_file(self, job_id: str) -> Path:
        return name_in(self.directory, f"{job_id}.json")
