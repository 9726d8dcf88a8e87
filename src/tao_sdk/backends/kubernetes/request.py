"""KubernetesRequest: what a plan creates in a cluster. JSON only at the store's edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tao_sdk.backends.job_environment import Variables, variables_from_json, variables_to_json
from tao_sdk.backends.kubernetes.job.pod_group import pod_group


@dataclass(frozen=True)
class Decisions:
    """The choices that are the same for every attempt of a job."""

    namespace: str
    nodes: int
    gpus: int  # on each node
    cluster: str  # the endpoint of the plan
    context: str = ""
    pull_registry: str = ""  # submit makes a Secret with the login to it; "" for no Secret
    gang_scheduler: str = ""  # starts all ranks at once; "" if none does

    def to_json(self) -> dict[str, Any]:
        """The decisions as JSON. Without a gang scheduler the field is left out, as in plans from
        before gang schedulers.
        """
        data = asdict(self)
        if not self.gang_scheduler:
            del data["gang_scheduler"]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Decisions:
        return cls(**data)


@dataclass(frozen=True)
class KubernetesRequest:
    """The objects to create: the Job and, if it starts suspended, the objects that it owns."""

    job: Mapping[str, Any]
    service: Mapping[str, Any] | None  # for ranks to find each other
    environment: Variables  # of the Secret only: submit gets the value of each name
    parts: int  # number of ConfigMaps with the command; 0 if the Job itself has it
    waits_in_queue: bool  # True if its queue starts the Job
    decisions: Decisions

    @property
    def name(self) -> str:
        return self.job["metadata"]["name"]

    @property
    def namespace(self) -> str:
        return self.job["metadata"]["namespace"]

    @property
    def pod_group(self) -> Mapping[str, Any] | None:
        """The object that groups the ranks for a gang scheduler; None without one."""
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
