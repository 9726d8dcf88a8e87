"""ActionWorkflow: the folder that keeps one run of an action, so that another process can take it
up again.

`<root>/<run>/<timestamp>/` holds metadata.json (the request), status.json (the last status),
status_events.jsonl (every change), active_jobs.json (the jobs that have not ended), latest_logs.txt
and failure_analysis.json. Each file is replaced as a whole. Not here: the jobs themselves, which
the SDK's store keeps.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from tao_sdk.model.clock import to_iso, utc_now
from tao_sdk.model.errors import NoLog, PathNotFound, Unreachable, UsageError
from tao_sdk.model.secrets import Secret, SecretRef, is_secret_name
from tao_sdk.model.status import TERMINAL, Status

# Unknown is none: the job may well go on
TERMINAL_STATUSES = frozenset(status.value for status in TERMINAL)


class StatusSeen(Protocol):
    """The answer of get_job_status."""

    @property
    def status(self) -> str: ...

    @property
    def message(self) -> str: ...


Seen = TypeVar("Seen", bound=StatusSeen)
Seen_co = TypeVar("Seen_co", bound=StatusSeen, covariant=True)


class SDK(Protocol[Seen_co]):
    """The three questions that a workflow asks; every platform's SDK answers them."""

    def get_job_status(self, job_id: str, /) -> Seen_co: ...

    def get_job_logs(self, job_id: str, /, tail: int | None = None) -> str | None: ...

    def get_failure_analysis(self, job_id: str, /) -> Mapping[str, Any] | None: ...


class ActionWorkflow:
    """One run's folder. An object made again with the same names goes on with the files there."""

    def __init__(
        self, root_dir: str | Path = "runs", run_name: str = "run", timestamp: str | None = None
    ) -> None:
        timestamp = timestamp or utc_now().strftime("%Y%m%d_%H%M%S")
        for what, name in (("run_name", run_name), ("timestamp", timestamp)):
            if not re.fullmatch(r"[^/\0]+", name) or name in (".", ".."):
                raise UsageError(f"{what} is {name!r}; it must be the name of one folder.")
        self._folder = Path(root_dir).expanduser().absolute() / run_name / timestamp
        self._folder.mkdir(parents=True, exist_ok=True)

    @classmethod
    def from_workspace(cls, path: str | Path) -> ActionWorkflow:
        """The workflow that an earlier process kept at `path`. Raises PathNotFound."""
        folder = Path(path).expanduser().absolute()
        if not folder.is_dir():
            raise PathNotFound(
                f"There is no workspace at {folder}.",
                "",
                "Name the folder that ends with the time stamp.",
            )
        return cls(folder.parent.parent, folder.parent.name, folder.name)

    @property
    def workspace(self) -> Path:
        return self._folder

    @property
    def active_jobs(self) -> list[dict[str, Any]]:
        """The jobs that were submitted here and have not been seen to end."""
        return self._read("active_jobs.json", [])

    def write_metadata(self, **metadata: Any) -> None:
        """Keep the request. Later calls add to it."""
        with self._alone():
            self._write("metadata.json", {**self._read("metadata.json", {}), **metadata})

    def write_submission(self, job: Any, specs: Any = None, script_runner: Any = None) -> None:
        """Keep a submitted job, its specs, and the result of build_entrypoint for it."""
        record = _job_record(job)
        with self._alone():
            others = [one for one in self.active_jobs if one.get("job_id") != record["job_id"]]
            self._write("active_jobs.json", [*others, record])
            self._write_status(
                {"job": record, "specs": specs, "script_runner": script_runner, "job_status": None}
            )
            self._note(record["job_id"], str(record.get("status") or Status.PENDING), "submitted")

    def sync_from_sdk(self, sdk: SDK[Seen], job_id: str, tail: int = 200) -> Seen:
        """Ask for the job's status, keep it and the last `tail` lines of its log, and return it.

        The SDK's errors are raised. Then the job stays active and the next call looks again.
        """
        seen = sdk.get_job_status(job_id)
        status = _plain_status(seen.status)
        with self._alone():
            self._keep_status(job_id, status, seen.message)
        logs = _log_of(sdk, job_id, tail, is_over=status in TERMINAL_STATUSES)
        analysis = sdk.get_failure_analysis(job_id) if status == Status.ERROR.value else None
        with self._alone():
            self._keep_evidence(logs, analysis)
            self._let_go_of_ended(job_id, status)
        return seen

    def sync_status(
        self,
        status: str,
        message: str = "",
        logs: str = "",
        failure_analysis: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the status of the job submitted last. A job that has ended is no longer active."""
        status = _plain_status(status)
        with self._alone():
            job_id = str(self._read("status.json", {}).get("job", {}).get("job_id", ""))
            self._keep_status(job_id, status, message)
            self._keep_evidence(logs, failure_analysis)
            self._let_go_of_ended(job_id, status)

    def _keep_status(self, job_id: str, status: str, message: str) -> None:
        kept = self._read("status.json", {})
        seen = {"job_id": job_id, "status": status, "message": message}
        before: Mapping[str, Any] = kept.get("job_status") or {}
        self._write_status({**kept, "job_status": {**seen, "updated_at": to_iso(utc_now())}})
        if {name: before.get(name) for name in seen} != seen:
            self._note(job_id, status, message)

    def _keep_evidence(self, logs: str | None, analysis: Mapping[str, Any] | None) -> None:
        if logs:
            self._replace("latest_logs.txt", logs)
        if analysis is not None:
            self._write("failure_analysis.json", analysis)

    def _let_go_of_ended(self, job_id: str, status: str) -> None:
        if status in TERMINAL_STATUSES:
            self._write(
                "active_jobs.json", [one for one in self.active_jobs if one.get("job_id") != job_id]
            )

    def _write_status(self, content: Mapping[str, Any]) -> None:
        self._write("status.json", {**content, "updated_at": to_iso(utc_now())})

    def _note(self, job_id: str, status: str, message: str) -> None:
        event = {"time": to_iso(utc_now()), "job_id": job_id, "status": status, "message": message}
        line = json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")
        descriptor = os.open(
            self._folder / "status_events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
        )
        try:
            os.write(descriptor, line + b"\n")
        finally:
            os.close(descriptor)

    def _read(self, name: str, default: Any) -> Any:
        try:
            return json.loads((self._folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return default

    def _write(self, name: str, content: Any) -> None:
        self._replace(
            name, json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        )

    def _replace(self, name: str, text: str) -> None:
        """Replace a file. A reader sees the old file or the new one, never a part of either."""
        descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode("utf-8", "replace"))
            Path(temporary).replace(self._folder / name)
        finally:
            Path(temporary).unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Hold the folder's lock: two processes that keep jobs in one folder do so one after the
        other.
        """
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _log_of(sdk: SDK[Any], job_id: str, tail: int, is_over: bool) -> str | None:
    """The end of a job's log. None if its backend keeps none; that is no reason to follow it for
    ever.

    None too while the backend of a live job is away. For a job that is over, the error is raised,
    and the next call asks again.
    """
    try:
        return sdk.get_job_logs(job_id, tail=tail)
    except NoLog:
        return None
    except Unreachable:
        if is_over:
            raise
        return None


def _plain_status(status: Any) -> str:
    return str(status.value if isinstance(status, Enum) else status)


def _job_record(job: Any) -> dict[str, Any]:
    """A job of any SDK as a mapping, with its id under `job_id`."""
    record = {"id": job} if isinstance(job, str) else _fields_of(job)
    return {**record, "job_id": str(record.get("job_id") or record["id"])}


def _fields_of(job: Any) -> Mapping[str, Any]:
    if isinstance(job, Mapping):
        return cast(Mapping[str, Any], job)
    for turn in ("to_json", "to_dict"):
        if hasattr(job, turn):
            return getattr(job, turn)()
    return {"id": job.id}


def _plain(value: Any, name: str = "") -> Any:
    """`value` in JSON's types. The value of a secret environment variable is left out."""
    if isinstance(value, (Secret, SecretRef)) or (name.isupper() and is_secret_name(name)):
        return "***"
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {
            str(key): _plain(item, str(key)) for key, item in cast(Mapping[Any, Any], value).items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in cast(list[Any], value)]
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
