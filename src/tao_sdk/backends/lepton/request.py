"""LeptonRequest: what a plan creates in a workspace. JSON only at the store's edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tao_sdk.backends.job_environment import Variables, variables_from_json, variables_to_json


@dataclass(frozen=True)
class Decisions:
    """The choices that are the same for every attempt of a job."""

    workspace: str
    group: str
    shape: str
    nodes: int
    gpus: int  # on each node
    volume: str = ""  # mounted for the results; "" for none
    volume_path: str = ""  # the path in that volume
    pull_secret: str = ""  # submit makes it of NGC_KEY where it is missing; "" for none

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Decisions:
        return cls(**data)


@dataclass(frozen=True)
class LeptonRequest:
    """The job to create. It names workspace secrets, and has no value of one."""

    job: Mapping[str, Any]
    environment: Variables  # of the secrets only: variable -> the secret that submit is given
    decisions: Decisions

    @property
    def name(self) -> str:
        return self.job["metadata"]["name"]

    def to_json(self) -> dict[str, Any]:
        return {
            "job": dict(self.job),
            "environment": variables_to_json(self.environment),
            "decisions": self.decisions.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LeptonRequest:
        return cls(
            job=data["job"],
            environment=variables_from_json(data["environment"]),
            decisions=Decisions.from_json(data["decisions"]),
        )
