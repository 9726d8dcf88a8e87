"""Plan, Attempt, Ref: exactly what will be sent, under which key, and where it then lives."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from tao_sdk.model.price import Price


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
    """The place where an attempt lives. A later process with other settings still asks the right
    cluster.

    `ready` is False while submit is unfinished. Then `step` says what is there so far, and
    `retry_after` the seconds until another call of submit can get further.
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


class PlanRequest(Protocol):
    """A backend's request, as its own frozen dataclass. The store has it as JSON;
    `request_from_json` reads that.
    """

    def to_json(self) -> dict[str, Any]: ...


RequestT = TypeVar("RequestT", bound=PlanRequest)
StoredT = TypeVar("StoredT", bound=PlanRequest)


@dataclass(frozen=True)
class Plan(Generic[RequestT]):
    """Everything that submit will do: pure data, printable, golden-tested. It has the names of
    secrets, never a value.
    """

    attempt: Attempt
    request: RequestT
    files: tuple[StagedFile, ...] = ()
    secrets: tuple[str, ...] = ()  # environment names whose values submit is given
    results_dir: str = ""  # the outputs' folder, as the backend sees it
    # where to fetch the outputs from; "" when they are on this machine or in a bucket
    results_at: str = ""
    notes: tuple[str, ...] = ()  # decisions made for the caller that are worth knowing
    # shown to the caller, never read
    backend_details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # the backend's limits beside those of the job: {"time_limit": "4h"}
    limits: Mapping[str, str] = field(default_factory=dict[str, str])
    ranks: int = 1  # the number of logs
    # folder of this machine that a command without files starts in; "" where it starts elsewhere
    start_folder: str = ""
    # remove the remains as soon as we have stored the end and the log
    release_when_over: bool = False
    price: Price | None = None  # of what the attempt rents; None if it rents nothing

    def to_json(self) -> dict[str, Any]:
        return {
            "request": self.request.to_json(),
            "files": [
                {
                    "path": file.path,
                    "mode": file.mode,
                    "content": base64.b64encode(file.content).decode(),
                }
                for file in self.files
            ],
            "secrets": list(self.secrets),
            "results_dir": self.results_dir,
            "results_at": self.results_at,
            "notes": list(self.notes),
            "backend_details": dict(self.backend_details),
            "limits": dict(self.limits),
            "ranks": self.ranks,
            "start_folder": self.start_folder,
            "release_when_over": self.release_when_over,
            "price": self.price.to_json() if self.price else None,
        }

    @staticmethod
    def from_json(
        data: Mapping[str, Any],
        attempt: Attempt,
        request_from_json: Callable[[Mapping[str, Any]], StoredT],
    ) -> Plan[StoredT]:
        return Plan(
            attempt=attempt,
            request=request_from_json(data["request"]),
            files=tuple(
                StagedFile(f["path"], base64.b64decode(f["content"]), f["mode"])
                for f in data["files"]
            ),
            secrets=tuple(data["secrets"]),
            results_dir=data["results_dir"],
            results_at=results_at_of(data),
            notes=tuple(data["notes"]),
            backend_details=data["backend_details"],
            limits=data.get("limits", {}),
            ranks=ranks_of(data),
            start_folder=start_folder_of(data),
            release_when_over=data.get("release_when_over", False),
            price=Price.from_json(data.get("price")),
        )


def ranks_of(data: Mapping[str, Any]) -> int:
    """The number of logs of a stored plan. Plans of 8.0's first stores have it in their
    backend_details.
    """
    return int(data.get("ranks") or data.get("backend_details", {}).get("num_nodes") or 1)


def start_folder_of(data: Mapping[str, Any]) -> str:
    """The folder of this machine where a stored plan's command starts, or "". Older plans have it
    in the request, as `cwd`.
    """
    return str(data.get("start_folder") or data.get("request", {}).get("cwd") or "")


def results_at_of(data: Mapping[str, Any]) -> str:
    """The place to fetch a stored plan's results from, or "". Older plans have it in their
    backend_details.
    """
    return str(data.get("results_at") or data.get("backend_details", {}).get("results_at", ""))
