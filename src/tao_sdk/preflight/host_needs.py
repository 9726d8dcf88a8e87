"""The machine that a model's skill needs, joined with what is asked for by flags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tao_sdk.model.finding import Finding, error, warning
from tao_sdk.preflight.requirements import ArchList, GpuNeeds

if TYPE_CHECKING:
    from tao_sdk.skills.skill import HostNeeds


def with_host_needs(asked: GpuNeeds, needs: HostNeeds, owner: str) -> GpuNeeds:
    """What is asked for, and the needs of a skill's GPUs, except their count."""
    archs = (ArchList(owner, needs.gpu_archs),) if needs.gpu_archs else ()
    return replace(
        asked,
        memory_gb=max(asked.memory_gb, needs.gpu_memory_gb),
        archs=(*asked.archs, *archs),
        driver=asked.driver or needs.driver,
    )


def count_findings(needs: HostNeeds, owner: str, gpus: int) -> Iterator[Finding]:
    """An error for a job with fewer GPUs, on all its nodes, than the skill needs."""
    if gpus < needs.gpu_count:
        what = f"{owner} needs {needs.gpu_count} GPUs; the job asks for {gpus}."
        yield error("gpu.too_few", what, "", "Ask for more: --gpus N, or --nodes N.")


def unseen_findings(needs: HostNeeds, owner: str) -> Iterator[Finding]:
    """A warning for what the skill needs of its host and no launch check looks at."""
    parts = {"CUDA": needs.cuda, "NVIDIA Container Toolkit": needs.container_toolkit}
    unseen = [f"{name} {version}" for name, version in parts.items() if version]
    if unseen:
        what = f"{owner} needs {' and '.join(unseen)} or newer on the machine."
        why = "A launch check does not look at that."
        yield warning("host.not_checked", what, why, "Check it there:", "tao doctor host")
