"""What broken hardware, links and drivers make programs say, as regular expressions. Every platform's rules read them.

Not here: what follows from such words (engine/rules.py, backends/*/rules.py).
"""

# What a broken machine, link or driver makes a program say. Lines that NCCL writes in passing are no failures.
NO_GPU = "|".join(
    (r"no CUDA-capable device", r"No CUDA GPUs are available", r"cuInit.*failed", r"CUDA initialization.*(?:error|fail)",
     r"Unable to determine the device handle for GPU", r"CUDA driver initialization failed")
)  # fmt: skip
# The Xid codes are those of hardware and links; 13, 31 and 43 are most often a program's own.
BAD_GPU = "|".join(
    (r"fallen off the bus", r"Xid.*: (?:48|61|62|63|64|74|79|92|94|95|119|120)\b", r"uncorrectable ECC",
     r"CUDA error: hardware")
)  # fmt: skip
BAD_LINK = "|".join(
    (r"NCCL (?:WARN|error).*(?:timed? ?out|[Cc]onnection (?:reset|closed|refused)|remote process exited)",
     r"NCCL (?:WARN|error).*unhandled system error", r"ncclSystemError", r"ncclRemoteError", r"ibv_poll_cq",
     r"Watchdog caught collective operation timeout", r"InfiniBand.*(?:error|down)", r"RDMA.*error",
     r"transport retry counter exceeded")
)  # fmt: skip
OLD_DRIVER = r"NVIDIA driver on your system is too old|CUDA driver version is insufficient"
