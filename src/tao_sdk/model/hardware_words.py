"""The messages of programs on broken hardware, links and drivers, and the rules that recognize
them, for every platform.

Not here: each platform's name for its machines, and what to do there (engine/rules.py,
backends/*/rules.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tao_sdk.model.diagnosis import ErrClass, Evidence
from tao_sdk.model.rule import Condition, Rule, any_of, backend_says, log_says

# Messages of programs on a broken machine, link or driver. Lines that NCCL writes in passing are
# no failures.
NO_GPU = (
    "no CUDA-capable device",
    "No CUDA GPUs are available",
    "cuInit.*failed",
    "CUDA initialization.*(?:error|fail)",
    "Unable to determine the device handle for GPU",
    "CUDA driver initialization failed",
)
# The Xid codes are those of hardware and links; 13, 31 and 43 are most often a program's own.
BAD_GPU = (
    "fallen off the bus",
    r"Xid.*: (?:48|61|62|63|64|74|79|92|94|95|119|120)\b",
    "uncorrectable ECC",
    "CUDA error: hardware",
)
BAD_LINK = (
    "NCCL (?:WARN|error).*(?:timed? ?out"
    "|[Cc]onnection (?:reset|closed|refused)|remote process exited)",
    "NCCL (?:WARN|error).*unhandled system error",
    "ncclSystemError",
    "ncclRemoteError",
    "ibv_poll_cq",
    "Watchdog caught collective operation timeout",
    "InfiniBand.*(?:error|down)",
    "RDMA.*error",
    "transport retry counter exceeded",
)
OLD_DRIVER = (
    "NVIDIA driver on your system is too old",
    "CUDA driver version is insufficient",
)
OUT_OF_GPU_MEMORY = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "OutOfMemoryError",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


@dataclass(frozen=True)
class Symptom:
    """Messages that a broken machine causes. `retryable`: an attempt on another machine may
    help.
    """

    patterns: tuple[str, ...]
    retryable: bool


# In the order in which the rules are asked.
SYMPTOMS: Mapping[str, Symptom] = {
    "driver_too_old": Symptom(OLD_DRIVER, retryable=False),
    "no_gpu": Symptom(NO_GPU, retryable=True),
    "bad_gpu": Symptom(BAD_GPU, retryable=True),
    "bad_link": Symptom(BAD_LINK, retryable=True),
}


@dataclass(frozen=True)
class MachineAdvice:
    """A platform's text for one symptom: what went wrong, with {seen}, and what to do there."""

    what: str
    next: str


def hardware_rules(prefix: str, advice: Mapping[str, MachineAdvice]) -> tuple[Rule, ...]:
    """One rule for each symptom, in a platform's words; their codes begin with `prefix`."""
    return tuple(
        Rule(
            code=prefix + name,
            when=machine_says(*symptom.patterns),
            what=advice[name].what,
            fault=ErrClass.INFRA,
            next=advice[name].next,
            retryable=symptom.retryable,
        )
        for name, symptom in SYMPTOMS.items()
    )


def machine_says(*patterns: str) -> Condition:
    """Recognize words of the log or the backend that match a pattern.

    Never matches if the program ran out of GPU memory: its other messages do not mean that the
    machine is broken.
    """
    out_of_memory = log_says(*OUT_OF_GPU_MEMORY)
    words = any_of(log_says(*patterns), backend_says(*patterns))

    def condition(evidence: Evidence) -> str | None:
        if out_of_memory(evidence):
            return None
        return words(evidence)

    return condition
