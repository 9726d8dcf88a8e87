"""Plan, Attempt, Ref: exactly what will be sent, under which key, and where it then lives."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a job: the key under which a backend is asked to run, find and forget."""

    job_id: str
    number: int  # 1, 2, ...
    platform: str
    endpoint: str  # which daemon, cluster or machine, as the backend names it
    store_id: str  # of the store that owns the job: a stranger's job is never adopted


@dataclass(frozen=True, slots=True)
class Ref:
    """Where an attempt lives. A later process with other settings still asks the right cluster.

    `ready` is False while submit is unfinished: `step` says what is there so far, `retry_after` when (seconds) calling
    submit again can get further.
    """

    platform: str
    endpoint: str
    namespace: str
    native_id: str
    unique_id: str  # never used again by the backend, unlike a name or a process id
    attempt: Attempt
    ready: bool = True
    step: str = ""
    retry_after: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)

    def to_json(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.__slots__ if name != "attempt"}
        return {**own, "details": dict(self.details)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], attempt: Attempt) -> Ref:
        return cls(**data, attempt=attempt)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that submit puts in place before the job starts."""

    path: str
    content: bytes = field(repr=False)
    mode: int = 0o600


@dataclass(frozen=True)
class Plan:
    """Everything that submit will do: pure data, printable, golden-tested; holds names of secrets, never a value."""

    attempt: Attempt
    request: Mapping[str, Any]  # the manifest, script or description that is sent
    files: tuple[StagedFile, ...] = ()
    secrets: tuple[str, ...] = ()  # environment names whose values submit is given
    results_dir: str = ""  # where the outputs will be, as the backend sees it
    notes: tuple[str, ...] = ()  # what was decided for the caller and is worth knowing
    backend_details: Mapping[str, Any] = field(default_factory=dict[str, Any])  # `num_nodes` where it has several ranks
    release_when_over: bool = False  # what is left goes as soon as the end and the log are kept by us

    def to_json(self) -> dict[str, Any]:
        return {
            "request": dict(self.request),
            "files": [
                {"path": file.path, "mode": file.mode, "content": base64.b64encode(file.content).decode()}
                for file in self.files
            ],
            "secrets": list(self.secrets),
            "results_dir": self.results_dir,
            "notes": list(self.notes),
            "backend_details": dict(self.backend_details),
            "release_when_over": self.release_when_over,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], attempt: Attempt) -> Plan:
        return cls(
            attempt=attempt,
            request=data["request"],
            files=tuple(StagedFile(f["path"], base64.b64decode(f["content"]), f["mode"]) for f in data["files"]),
            secrets=tuple(data["secrets"]),
            results_dir=data["results_dir"],
            notes=tuple(data["notes"]),
            backend_details=data["backend_details"],
            release_when_over=data.get("release_when_over", False),
        )
