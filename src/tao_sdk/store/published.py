"""The database of the published SDK (nvidia-tao-sdk 7): recognize it, and read its jobs as ours.

It is read from a copy, so it is never altered.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import StoreError
from tao_sdk.model.job import Job
from tao_sdk.model.log_reading import LogReading
from tao_sdk.model.progress import Progress
from tao_sdk.model.status import Status
from tao_sdk.store import schema

OURS = "jobs.db"  # the default name in a state directory, now
DEFAULT = "tao_session_state.db"  # the published SDK's default name
SUFFIX = ".v8.db"  # ours, beside a database of the published SDK

PLATFORMS: Mapping[str, str] = {
    "local-docker": "docker",
    "k8s": "kubernetes",
    "local-k8s": "kubernetes",
    "virtualenv": "local",
}
CANCELING = "Canceling"  # its one status that is not ours: to be canceled, its end not seen yet

_COLUMNS = (
    "job_id", "action", "network_arch", "backend_type", "backend_job_id", "status", "parent_job_id",
    "image", "specs",
    "results_dir", "local_results_dir", "last_epoch", "created_at", "updated_at",
)  # fmt: skip


def beside(path: Path) -> Path:
    """X.v8.db for X.db."""
    return path.with_name(path.name.removesuffix(".db") + SUFFIX)


def source_of(path: Path) -> Path | None:
    """X.db for X.v8.db, the published SDK's own default for ours; None for any other name."""
    if path.name == OURS:
        return path.with_name(DEFAULT)
    if not path.name.endswith(SUFFIX):
        return None
    return path.with_name(path.name.removesuffix(SUFFIX) + ".db")


def is_published(path: Path) -> bool:
    """True if there is a database of the published SDK at `path`. Touches neither the file nor its
    folder.
    """
    if not path.is_file() or path.stat().st_size == 0 or _is_ours(path):
        return False
    try:
        with _open_copy(path) as db:
            return {"job_id", "backend_type", "workspace_id"} <= _column_names(db)
    except (sqlite3.DatabaseError, OSError):
        return False


def read_jobs(path: Path) -> list[Job]:
    """Read the jobs of a published SDK's database, oldest first, with their ids and statuses.
    Raises StoreError.
    """
    try:
        with _open_copy(path) as db:
            shown = [name if name in _column_names(db) else f"NULL AS {name}" for name in _COLUMNS]
            db.row_factory = sqlite3.Row
            rows = db.execute(
                f"SELECT {', '.join(shown)} FROM jobs ORDER BY created_at, job_id"
            ).fetchall()
    except (sqlite3.DatabaseError, OSError) as error:
        raise StoreError(
            f"{path}, a database of the published SDK, cannot be read: {error}.",
            "",
            "Choose another place with state_file.",
        ) from error
    try:
        return [_job_of_row(dict(row), path) for row in rows]
    except (TypeError, AttributeError) as error:  # a value of another kind than that SDK writes
        raise StoreError(
            f"{path}, a database of the published SDK, cannot be read: {error}.",
            "",
            "Choose another place with state_file.",
        ) from error


def _is_ours(path: Path) -> bool:
    """True if the file's header is ours. It is read through SQLite, because closing a descriptor of
    our own would drop the locks on a store in use.
    """
    from urllib.parse import quote

    try:
        with closing(
            sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)
        ) as db:
            return db.execute("PRAGMA application_id").fetchone()[0] == schema.APPLICATION_ID
    except sqlite3.DatabaseError:
        return False


@contextmanager
def _open_copy(path: Path) -> Generator[sqlite3.Connection]:
    """Connect to a copy of the database and of its journal, which may hold the newest rows."""
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tao-import-") as folder:
        copy = Path(folder) / "copy.db"
        for suffix in ("", "-wal"):
            source = Path(f"{path}{suffix}")
            if source.is_file():
                shutil.copyfile(source, f"{copy}{suffix}")
        with closing(sqlite3.connect(copy)) as db:
            yield db


def _column_names(db: sqlite3.Connection) -> set[str]:
    return {row[1] for row in db.execute("PRAGMA table_info(jobs)")}


def _job_of_row(row: Mapping[str, Any], path: Path) -> Job:
    status = row["status"] or ""
    specs = _read_specs(row["specs"])
    created = _read_time(row["created_at"]) or utc_now()
    ended = status in ("Complete", "Error", "Canceled")
    return Job(
        id=row["job_id"],
        name=row["action"] or row["network_arch"] or "job",
        platform=PLATFORMS.get(row["backend_type"], row["backend_type"] or "unknown"),
        status=_read_status(status),
        message=f"{status or 'no status'} in {path.name}",
        image=row["image"] or "",
        parent=row["parent_job_id"] or None,
        reading=LogReading(Progress(epoch=row["last_epoch"] or 0)),
        created=created,
        ended=_read_time(row["updated_at"]) if ended else None,
        seen_at=_read_time(row["updated_at"]),
        results_dir=row["results_dir"] or row["local_results_dir"] or "",
        backend_details={"backend_job_id": row["backend_job_id"] or ""},
        imported_from=str(path),
        spec={"image": row["image"] or "", **({"specs": specs} if specs else {})},
        cancel_asked=status == CANCELING,
    )


def _read_status(word: str) -> Status:
    if word == CANCELING:
        return Status.RUNNING
    return Status(word) if word in {status.value for status in Status} else Status.UNKNOWN


def _read_specs(text: str | None) -> dict[str, Any]:
    """The caller's spec; names that begin with _ are the published SDK's own notes."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {key: item for key, item in members.items() if not key.startswith("_")}


def _read_time(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat((text or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
