"""DockerRequest: a plan's request to a daemon. JSON only at the store's edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tao_sdk.backends.containers.request import ContainerRequest
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.job_environment import variables_from_json, variables_to_json


@dataclass(frozen=True)
class Surroundings:
    """Facts about the caller. A retry keeps them, whoever asks for it and from any place."""

    cwd: str
    home: str
    uid: int
    gid: int
    network: str
    pull: str
    ssh_path: str

    @classmethod
    def of(cls, facts: DockerFacts) -> Surroundings:
        return cls(
            facts.cwd, facts.home, facts.uid, facts.gid, facts.network, facts.pull, facts.ssh_path
        )


@dataclass(frozen=True, kw_only=True)
class DockerRequest(ContainerRequest):
    """The container of an attempt, and the facts that a retry and the checks need."""

    surroundings: Surroundings
    cache: str = ""  # folder in the container for fetched inputs that jobs share

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "container": dict(self.container),
            "environment": variables_to_json(self.environment),
            "command": self.command,
            "daemon": self.daemon,
            "pull": self.pull,
            "folders": list(self.folders),
            "opens_results": self.opens_results,
            "make_network": self.make_network,
            "surroundings": asdict(self.surroundings),
            **({"cache": self.cache} if self.cache else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DockerRequest:
        typed: dict[str, Any] = {
            **data,
            "environment": variables_from_json(data["environment"]),
            "folders": tuple(data["folders"]),
            "surroundings": Surroundings(**data["surroundings"]),
        }
        return cls(**typed)
