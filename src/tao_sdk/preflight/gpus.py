"""GPUs: how many there are, their memory and architecture, against what a launch needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tao_sdk.model.finding import Finding, Severity, error
from tao_sdk.model.machines import Gpu
from tao_sdk.preflight.requirements import GpuNeeds, same_family


def gpu_findings(gpus: Sequence[Gpu], needs: GpuNeeds) -> Iterator[Finding]:
    """Findings about what the GPUs lack. If they lack nothing, one finding lists them."""
    problems = [
        *count_findings(gpus, needs),
        *memory_findings(gpus, needs),
        *arch_findings(gpus, needs),
        *driver_findings(gpus, needs),
    ]
    yield from problems
    if gpus and not problems:
        yield Finding(Severity.OK, "gpu.there", f"{len(gpus)} GPU: {', '.join(described(gpus))}.")


def unseen_gpus(why: str, next: str = "") -> Finding:
    advice = next or "Look at a machine that would run the job, with nvidia-smi."
    return error("gpu.not_seen", "GPUs could not be checked.", why, advice)


def described(gpus: Sequence[Gpu]) -> list[str]:
    """Each kind of GPU once: `NVIDIA H100 86 GB sm_90`."""
    return list(dict.fromkeys(map(words_of, gpus)))


def words_of(gpu: Gpu) -> str:
    words = [gpu.name]
    if gpu.memory:
        words.append(gigabytes(gpu))
    if gpu.arch:
        words.append(gpu.arch)
    return " ".join(words)


def gigabytes(gpu: Gpu) -> str:
    return f"{gpu.memory / 1e9:.0f} GB"


def count_findings(gpus: Sequence[Gpu], needs: GpuNeeds) -> Iterator[Finding]:
    wanted = max(needs.count, 1 if needs.any else 0)
    if len(gpus) < wanted:
        yield error(
            "gpu.too_few",
            f"{wanted} GPU needed, {len(gpus)} found.",
            "",
            "Choose a machine with more GPUs, or ask for fewer.",
        )


def memory_findings(gpus: Sequence[Gpu], needs: GpuNeeds) -> Iterator[Finding]:
    if not needs.memory_gb:
        return
    unknown = [gpu for gpu in gpus if not gpu.memory]
    small = [gpu for gpu in gpus if gpu.memory and gpu.memory < needs.memory_gb * 1e9]
    if unknown:
        yield error(
            "gpu.memory_unseen",
            f"The memory of {unknown[0].name} could not be seen.",
            f"{needs.memory_gb:g} GB are needed.",
            "Read it on a machine with that GPU, and compare:",
            "nvidia-smi --query-gpu=memory.total --format=csv",
        )
    if small:
        yield error(
            "gpu.memory",
            f"{small[0].name} has {gigabytes(small[0])}; {needs.memory_gb:g} GB are needed.",
            "",
            "Choose GPUs with more memory.",
        )


def arch_findings(gpus: Sequence[Gpu], needs: GpuNeeds) -> Iterator[Finding]:
    kinds = {gpu.arch: gpu for gpu in gpus}.values()
    for wanted in needs.archs:
        allowed = ", ".join(wanted.archs)
        for gpu in kinds:
            if not gpu.arch:
                yield error(
                    "gpu.arch_unseen",
                    f"The architecture of {gpu.name} could not be seen.",
                    f"{wanted.image} runs on {allowed}.",
                    "Read it on a machine with that GPU, and compare:",
                    "nvidia-smi --query-gpu=compute_cap --format=csv,noheader",
                )
            elif not any(same_family(gpu.arch, each) for each in wanted.archs):
                yield error(
                    "gpu.arch",
                    f"{gpu.name} is {gpu.arch}; {wanted.image} runs on {allowed}.",
                    "",
                    "Choose another GPU, or an image that is built for this one.",
                )


def driver_findings(gpus: Sequence[Gpu], needs: GpuNeeds) -> Iterator[Finding]:
    for driver in dict.fromkeys(gpu.driver for gpu in gpus if needs.driver):
        if not driver:
            yield error(
                "gpu.driver_unseen",
                "The version of the NVIDIA driver could not be seen.",
                f"{needs.driver} or newer is needed.",
                "Read it on a machine that would run the job, and compare:",
                "nvidia-smi --query-gpu=driver_version --format=csv,noheader",
            )
        elif version_of(driver) < version_of(needs.driver):
            yield error(
                "gpu.driver",
                f"The NVIDIA driver is {driver}; {needs.driver} or newer is needed.",
                "",
                "Choose another machine, or install the driver there: tao doctor host",
            )


def version_of(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isascii() and part.isdigit())
