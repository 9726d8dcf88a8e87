"""LocalRequest: a plan's request to this machine. JSON only at the store's edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tao_sdk.backends.job_environment import Variables, variables_from_json, variables_to_json


@dataclass(frozen=True)
class RequestedGpus:
    """The number of GPUs for the job, and the candidates.

    The supervisor takes `count` free ones, in the order of `candidates`.
    """

    count: int
    asked: int  # spec.gpu_count
    ids: tuple[int, ...]  # chosen by the caller
    candidates: tuple[str, ...]  # Gpu.key of each
    lock_folder: str

    def to_json(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "asked": self.asked,
            "ids": list(self.ids),
            "from": list(self.candidates),
            "locks": self.lock_folder,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RequestedGpus:
        return cls(
            data["count"], data["asked"], tuple(data["ids"]), tuple(data["from"]), data["locks"]
        )


@dataclass(frozen=True)
class LocalRequest:
    """The process to start, and the facts for `check`."""

    command: str
    cwd: str
    environment: Variables
    gpus: RequestedGpus
    time_limit: float  # seconds; 0 for none
    grace: float  # seconds between SIGTERM and SIGKILL
    venv: str  # folder of the virtual environment; "" for none
    inputs: Mapping[str, str]  # key -> path that must exist before the start
    outside: tuple[str, ...]  # outputs outside the job's results
    keeps: bool  # the job declares outputs
    mounts: bool  # the job names mounts, which nothing uses here
    native: tuple[str, ...]  # names in `native`, which nothing uses here
    links: Mapping[str, str] = field(default_factory=dict[str, str])  # see render.input_links

    def to_json(self) -> dict[str, Any]:
        links = {"links": dict(self.links)} if self.links else {}  # older plans have none
        return {
            **links,
            "command": self.command,
            "cwd": self.cwd,
            "environment": variables_to_json(self.environment),
            "gpus": self.gpus.to_json(),
            "time_limit": self.time_limit,
            "grace": self.grace,
            "venv": self.venv,
            "inputs": dict(self.inputs),
            "outside": list(self.outside),
            "keeps": self.keeps,
            "mounts": self.mounts,
            "native": list(self.native),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LocalRequest:
        typed: dict[str, Any] = {
            **data,
            "environment": variables_from_json(data["environment"]),
            "gpus": RequestedGpus.from_json(data["gpus"]),
            "outside": tuple(data["outside"]),
            "native": tuple(data["native"]),
        }
        return cls(**typed)
