"""What broken hardware, links and drivers make programs say, and the rules that recognize it, for
every platform.

Not here: how each platform calls its machines, and what to do there (engine/rules.py,
backends/*/rules.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tao_sdk.model.diagnosis import ErrClass
from tao_sdk.model.rule import Looks, Rule, any_of, backend_says, in_log

# What a broken machine, link or driver makes a program say. Lines that NCCL writes in passing are
# no failures.
NO_GPU = "|".join(
    (r"no CUDA-capable device", r"No CUDA GPUs are available", r"cuInit.*failed",
         r"CUDA initialization.*(?:error|fail)",
     r"Unable to determine the device handle for GPU", r"CUDA driver initialization failed")
)  # fmt: skip
# The Xid codes are those of hardware and links; 13, 31 and 43 are most often a program's own.
BAD_GPU = "|".join(
    (r"fallen off the bus", r"Xid.*: (?:48|61|62|63|64|74|79|92|94|95|119|120)\b",
         r"uncorrectable ECC",
     r"CUDA error: hardware")
)  # fmt: skip
BAD_LINK = "|".join(
    ((
        r"NCCL (?:WARN|error).*(?:timed? ?out|[Cc]onnection "
        r"(?:reset|closed|refused)|remote process exited)"
    ),
     r"NCCL (?:WARN|error).*unhandled system error", r"ncclSystemError", r"ncclRemoteError",
     r"ibv_poll_cq",
     r"Watchdog caught collective operation timeout", r"InfiniBand.*(?:error|down)", r"RDMA.*error",
     r"transport retry counter exceeded")
)  # fmt: skip
OLD_DRIVER = r"NVIDIA driver on your system is too old|CUDA driver version is insufficient"
OUT_OF_GPU_MEMORY = "|".join(
    (
        r"CUDA out of memory",
        r"CUDA error: out of memory",
        r"OutOfMemoryError",
        r"CUBLAS_STATUS_ALLOC_FAILED",
    )
)
# The rules in their order: name -> (what is looked for, whether a further attempt on another
# machine may help).
RECOGNIZED: Mapping[str, tuple[str, bool]] = {
    "driver_too_old": (OLD_DRIVER, False),
    "no_gpu": (NO_GPU, True),
    "bad_gpu": (BAD_GPU, True),
    "bad_link": (BAD_LINK, True),
}


@dataclass(frozen=True)
class Told:
    """What a platform says of one of them: the cause with {seen}, and what to do there."""

    cause: str
    suggestion: str


def hardware_rules(prefix: str, words: Mapping[str, Told]) -> tuple[Rule, ...]:
    """The rules of all that is recognized, in a platform's words."""
    return tuple(
        Rule(
            prefix + name,
            machine_says(pattern),
            words[name].cause,
            ErrClass.INFRA,
            words[name].suggestion,
            retryable,
        )
        for name, (pattern, retryable) in RECOGNIZED.items()
    )


def machine_says(pattern: str) -> Looks:
    """Never matches where the program ran out of GPU memory: its other words do not mean that the
    machine is broken.
    """
    ran_out, looks = in_log(OUT_OF_GPU_MEMORY), any_of(in_log(pattern), backend_says(pattern))
    return lambda evidence: None if ran_out(evidence) else looks(evidence)
