"""A launch, checked from end to end without the package installed: the platform, its credentials,
GPUs and image, and the datasets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tao_sdk.model.finding import Finding, Severity, error, warning
from tao_sdk.preflight.access import Access, PlatformCheck
from tao_sdk.preflight.credentials import credential_findings
from tao_sdk.preflight.datasets import NotSeen, dataset_findings
from tao_sdk.preflight.gpus import gpu_findings
from tao_sdk.preflight.host_needs import unseen_findings
from tao_sdk.preflight.images import free_findings
from tao_sdk.preflight.places import Buckets, ThisMachine, place_of
from tao_sdk.preflight.platforms import PLATFORMS, access_to
from tao_sdk.preflight.requirements import DataNeeds, Dataset

if TYPE_CHECKING:
    from tao_sdk.skills.skill import Skill

WORDS: Mapping[Severity, str] = {
    Severity.OK: "OK",
    Severity.WARNING: "WARN",
    Severity.ERROR: "MISSING",
}


@dataclass(frozen=True)
class Launch:
    """The parts of a launch to look at."""

    platform: str  # a short name of the bank's, such as slurm
    skill: Skill | None  # the platform's skill
    check: PlatformCheck
    datasets: Sequence[Dataset] = ()
    needs: DataNeeds = field(default_factory=DataNeeds)
    skip_access: bool = False
    model: Skill | None = None


def launch_findings(launch: Launch) -> Iterator[Finding]:
    """All findings, in the order in which a user mends them."""
    environ = launch.check.environ
    for skill in (launch.skill, launch.model):
        if skill:
            yield from credential_findings(skill, lambda name: bool(environ.get(name)))
    if launch.model:
        yield from unseen_findings(launch.model.needs_of(""), launch.model.name)
    access = access_to(launch.platform, launch.check)
    if access is None:
        yield error(
            "platform.not_built",
            f"{launch.platform} cannot be checked.",
            "No job can be run there yet.",
            f"Choose another platform: {', '.join(PLATFORMS)}.",
        )
        return
    if launch.skip_access:
        yield skipped(f"{launch.platform} was not looked at: this is a dry check.")
    else:
        yield from access.findings()
        yield from platform_gpu_findings(access, launch.check)
        if launch.check.free_gb:
            yield from free_findings(access.free(), launch.check.free_gb)
    yield from data_findings(launch, access)


def data_findings(launch: Launch, access: Access) -> Iterator[Finding]:
    """Findings about each dataset, at its place on the platform. A dry check leaves out data on the
    platform.
    """
    for dataset in launch.datasets:
        place = place_of(dataset.address, access.paths(), launch.check.environ)
        if launch.skip_access and not isinstance(place, (ThisMachine, Buckets)):
            yield skipped(f"{dataset.label} was not looked at: {dataset.address}")
        else:
            yield from dataset_findings(dataset, launch.needs, place)


def skipped(what: str) -> Finding:
    why, advice = "--skip-platform-access is given.", "Leave it out before a real launch."
    return warning("platform.skipped", what, why, advice)


def platform_gpu_findings(access: Access, check: PlatformCheck) -> Iterator[Finding]:
    """Findings about the GPUs. If they cannot be seen: an error if GPUs are asked for, else a
    warning.
    """
    try:
        gpus = access.gpus()
    except NotSeen as unseen:
        severity = error if check.gpus.any else warning
        yield severity("gpu.not_seen", "GPUs could not be checked.", unseen.why, unseen.next)
        return
    if not gpus and not check.gpus.any:
        yield warning(
            "gpu.none",
            "No GPU is seen.",
            "Nothing asks for one: a job with gpu_count 0 can run.",
            "If the job needs GPUs, say so: --gpu-min-count N",
        )
    yield from gpu_findings(gpus, check.gpus)


def finding_line(finding: Finding) -> str:
    """`MISSING: what. why -> next`, as the documents' own checks print it."""
    return f"{WORDS[finding.severity]}: {finding.text}"


def is_ready(findings: Sequence[Finding]) -> bool:
    return all(finding.severity is not Severity.ERROR for finding in findings)


def findings_view(findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "ready": is_ready(findings),
        "findings": [finding.to_json() for finding in findings],
    }
