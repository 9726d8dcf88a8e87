"""Keyring: the secrets of live jobs, one 0600 file per job, so that a retry can hand them over
again.

They lie beside the database and never in it, and are forgotten when the job ends.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from tao_sdk.store.private_files import explained, name_in, write_whole

GRACE_SECONDS = 3600.0


class Keyring:
    """The secrets of the jobs of one store."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def save(self, job_id: str, values: Mapping[str, str]) -> None:
        """Keep `values` in place of what was kept for the job. On disk when this returns."""
        write_whole(self._file(job_id), json.dumps(dict(values)).encode())

    def load(self, job_id: str) -> dict[str, str]:
        """What was saved for the job; empty when nothing was, or it was forgotten."""
        path = self._file(job_id)
        with explained(path):
            try:
                return json.loads(path.read_bytes())
            except FileNotFoundError:
                return {}

    def forget(self, job_id: str) -> None:
        path = self._file(job_id)
        with explained(path):
            path.unlink(missing_ok=True)

    def forget_others(self, live: Collection[str], grace: float = GRACE_SECONDS) -> None:
        """Forget what belongs to no `live` job and is older than `grace`: a submit saves secrets
        before its job's row.
        """
        kept = {self._file(job_id).name for job_id in live}
        with explained(self.directory):
            for path in self.directory.iterdir() if self.directory.is_dir() else ():
                if path.name not in kept and path.stat().st_mtime <= time.time() - grace:
                    path.unlink(missing_ok=True)

    def _file(self, job_id: str) -> Path:
        return name_in(self.directory, f"{job_id}.json")
