"""KubernetesRequest: what a plan asks of a cluster. JSON only at the store's edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tao_sdk.backends.job_environment import Variables, variables_from_json, variables_to_json
from tao_sdk.backends.kubernetes.job.pod_group import pod_group


@dataclass(frozen=True)
class Decisions:
    """What is the same for every attempt of a job."""

    namespace: str
    nodes: int
    gpus: int  # on each node
    cluster: str  # the endpoint that was planned for
    context: str = ""
    pull_registry: str = ""  # a Secret with the login to it is made; "" where none is
    gang_scheduler: str = ""  # starts all ranks at once; "": none does

    def to_json(self) -> dict[str, Any]:
        """Without a gang scheduler as plans were before there were any."""
        data = asdict(self)
        if not self.gang_scheduler:
            del data["gang_scheduler"]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Decisions:
        return cls(**data)


@dataclass(frozen=True)
class KubernetesRequest:
    """The objects to create: the Job; where it is suspended what it owns, and then it runs."""

    job: Mapping[str, Any]
    service: Mapping[str, Any] | None  # for ranks to find each other
    environment: Variables  # of the Secret alone: each name stands for a value that submit is given
    parts: int  # ConfigMaps with the command; 0 where it is part of the Job
    waits_in_queue: bool  # its queue starts the Job, not we
    decisions: Decisions

    @property
    def name(self) -> str:
        return self.job["metadata"]["name"]

    @property
    def namespace(self) -> str:
        return self.job["metadata"]["namespace"]

    @property
    def pod_group(self) -> Mapping[str, Any] | None:
        """By which a gang scheduler knows the ranks."""
        scheduler = self.decisions.gang_scheduler
        return pod_group(self.job, scheduler) if scheduler else None

    def to_json(self) -> dict[str, Any]:
        return {
            "job": dict(self.job),
            "service": dict(self.service) if self.service else None,
            "environment": variables_to_json(self.environment),
            "parts": self.parts,
            "waits_in_queue": self.waits_in_queue,
            "decisions": self.decisions.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KubernetesRequest:
        return cls(
            job=data["job"],
            service=data["service"],
            environment=variables_from_json(data["environment"]),
            parts=data["parts"],
            waits_in_queue=data["waits_in_queue"],
            decisions=Decisions.from_json(data["decisions"]),
        )
