"""SlurmRequest: a plan's request to a cluster, and the decisions for all attempts of the job.

JSON only at the store's edge.
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
    """The facts shared by all attempts of a job: everything except the attempt's number."""

    base: str  # folder on the cluster that holds all our files
    results_root: str  # folder on the cluster
    bucket_root: str  # bucket prefix to which results are sent from there; "" for none
    accounting: bool  # the cluster has sacct
    directives: Mapping[str, str]  # of sbatch; "" for a flag
    nodes: int
    gpus: int  # per node
    exclusive: bool
    timeout: float  # seconds after which the command is asked to end; 0 for never
    grace: int  # seconds between that and SIGKILL
    kill_wait: int  # the site's seconds between SIGTERM and SIGKILL
    runtime: str  # container runtime
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
        """The final place of the results: in the bucket if there is one."""
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
    """The batch script, the sbatch command, and the decisions behind both."""

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
    """The finding in the form that plans of every version have.

    It uses the documents' names, and has a command only if the finding has one.
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
