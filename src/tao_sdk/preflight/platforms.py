"""The platforms that can be looked at without the package, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tao_sdk.preflight.access import Access, PlatformCheck
from tao_sdk.preflight.docker_access import DockerAccess
from tao_sdk.preflight.kubernetes_access import KubernetesAccess
from tao_sdk.preflight.lepton_access import LeptonAccess
from tao_sdk.preflight.local_access import LocalAccess
from tao_sdk.preflight.slurm_access import SlurmAccess

PLATFORMS: Mapping[str, Callable[[PlatformCheck], Access]] = {
    "local": LocalAccess,
    "local-docker": DockerAccess,
    "slurm": SlurmAccess,
    "kubernetes": KubernetesAccess,
    "lepton": LeptonAccess,
}


def access_to(platform: str, check: PlatformCheck) -> Access | None:
    """The access to a platform; None if the platform cannot be looked at."""
    made = PLATFORMS.get(platform)
    return made(check) if made else None
