"""SlurmRequest: what a plan asks of a cluster, and what was decided for every attempt. JSON only at
the store's edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tao_sdk.backends.job_environment import Variables, variables_from_json, variables_to_json
from tao_sdk.backends.slurm.images.containers import Start
from tao_sdk.backends.slurm.images.image_plan import ImagePlan
from tao_sdk.backends.slurm.job.data import RequiredPath
from tao_sdk.backends.slurm.job.paths import JobHome
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.plan import Attempt


@dataclass(frozen=True)
class Decisions:
    """What is the same for every attempt of a job: everything but the attempt's number."""

    base: str  # folder on the cluster below which everything of ours lies
    results_root: str  # folder on the cluster
    bucket_root: str  # where results are sent from there; "" for nowhere
    accounting: bool  # the cluster has sacct
    directives: Mapping[str, str]  # of sbatch; "" for a flag
    nodes: int
    gpus: int  # per node
    exclusive: bool
    timeout: float  # seconds after which the command is asked to end; 0 for never
    grace: int  # seconds between that and SIGKILL
    kill_wait: int  # seconds; the site's own between SIGTERM and SIGKILL
    runtime: str  # what runs the image
    image: ImagePlan | None
    container: Start
    environment: Variables
    checks: tuple[RequiredPath, ...]  # paths that must be there
    resume_on_timeout: bool
    cluster: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def home(self) -> JobHome:
        return JobHome(self.base, self.results_root, self.accounting)

    def results_dir(self, attempt: Attempt) -> str:
        """Where results end up: in the bucket, if there is one."""
        return f"{self.bucket_root or self.results_root}/{attempt.job_id}"

    def to_json(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            **own,
            "directives": dict(self.directives),
            "image": self.image.to_json() if self.image else None,
            "container": asdict(self.container),
            "environment": variables_to_json(self.environment),
            "checks": [[required.path, required.what] for required in self.checks],
            "findings": [finding_to_json(each) for each in self.findings],
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Decisions:
        typed: dict[str, Any] = {
            **data,
            "bucket_root": data.get("bucket_root", ""),
            "image": ImagePlan.from_json(data["image"]) if data["image"] else None,
            "container": Start(**data["container"]),
            "environment": variables_from_json(data["environment"]),
            "checks": tuple(RequiredPath(path, what) for path, what in data["checks"]),
            "findings": tuple(finding_from_json(each) for each in data["findings"]),
            "notes": tuple(data["notes"]),
        }
        return cls(**typed)


@dataclass(frozen=True)
class SlurmRequest:
    """The batch script, how sbatch is called, and from what both were made."""

    script: str
    sbatch: tuple[str, ...]
    job_dir: str
    decisions: Decisions

    def to_json(self) -> dict[str, Any]:
        return {
            "script": self.script,
            "sbatch": list(self.sbatch),
            "job_dir": self.job_dir,
            "parts": self.decisions.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SlurmRequest:
        return cls(
            data["script"],
            tuple(data["sbatch"]),
            data["job_dir"],
            Decisions.from_json(data["parts"]),
        )


def finding_to_json(finding: Finding) -> dict[str, str]:
    """The finding as plans of every version hold it: under the documents' names, with a command
    where it has one.
    """
    kept = {
        "severity": finding.severity.value,
        "code": finding.code,
        "what": finding.what,
        "evidence": finding.why,
        "fix": finding.next,
    }
    return {**kept, "command": finding.command} if finding.command else kept


def finding_from_json(data: Mapping[str, str]) -> Finding:
    severity = Severity(data["severity"])
    return Finding(
        severity, data["code"], data["what"], data["evidence"], data["fix"], data.get("command", "")
    )
