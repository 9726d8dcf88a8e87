"""Machines that are to run a job, as far as they can be seen: their GPUs, architecture and disk.

Here: the record, and how its parts are read from what programs print. Not here: the code that asks
for it (preflight/access.py, the backends), and what a launch needs (preflight/gpus.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MIB = 1024 * 1024
GPU_QUERY = (
    "nvidia-smi",
    "--query-gpu=name,memory.total,compute_cap,driver_version",
    "--format=csv,noheader,nounits",
)
VERSION = re.compile(r"\d+(?:\.\d+)*", re.ASCII)
ARCH = re.compile(r"(?:sm_|compute_)?(\d{1,2})\.?(\d)([a-z]?)")
# the kernel's names of architectures -> those of images
IMAGE_ARCHS = {"x86_64": "amd64", "aarch64": "arm64"}
# of GPU feature discovery: the whole version, or its first part
DRIVER_LABELS = ("cuda.driver-version.full", "cuda.driver.major")
MOST_GPUS = 1024  # of one node; more are not believed


@dataclass(frozen=True)
class Gpu:
    """One GPU. An unknown value is 0 or ""."""

    name: str
    memory: int = 0  # bytes
    arch: str = ""  # such as sm_90
    driver: str = ""  # such as 580.65.06


@dataclass(frozen=True)
class Machines:
    """The known facts about the machines. On a cluster `gpus` are those of the largest node."""

    gpus: tuple[Gpu, ...] = ()
    gpus_unseen: str = ""  # why they are not known
    archs: tuple[str, ...] = ()  # as images name them: amd64; none where they are not known
    images: frozenset[str] = frozenset()  # that are on one of them, with their registry
    free: int | None = None  # bytes on the disk that a job fills; None where it is not known
    asks_registries: bool = False  # the platform itself looks for an image before a job starts


def read_arch(text: str) -> str:
    """Return `sm_80` for sm_80, compute_80, 80 and 8.0. Raises ValueError."""
    match = ARCH.fullmatch(text.strip().lower())
    if not match:
        raise ValueError(f"{text!r} is not a GPU architecture such as sm_80")
    return f"sm_{match[1]}{match[2]}{match[3]}"


def arch_or_nothing(text: str) -> str:
    try:
        return read_arch(text)
    except ValueError:
        return ""


def image_archs(machines: Iterable[str]) -> tuple[str, ...]:
    """The names of architectures in images, for the kernel's names, each once."""
    names = dict.fromkeys(IMAGE_ARCHS.get(machine, machine) for machine in machines)
    return tuple(name for name in names if name)


# nvidia-smi


def parse_gpus(text: str) -> list[Gpu]:
    """Parse the answer to GPU_QUERY."""
    return [parse_line(line) for line in text.splitlines() if line.count(",") >= 2]


def parse_line(line: str) -> Gpu:
    """Parse one line, with the driver or without it. A name may have commas."""
    *words, memory, capability, driver = ("", *(part.strip() for part in line.split(",")))
    if not (memory.isdigit() or memory.startswith("[")):
        words, memory, capability, driver = [*words, memory], capability, driver, ""
    name = ", ".join(filter(None, words))
    known = driver if VERSION.fullmatch(driver) else ""
    size = int(memory) * MIB if memory.isdigit() else 0
    return Gpu(name, size, arch_or_nothing(capability), known)


# Clusters


def most_gpus(nodes: Iterable[list[Gpu]]) -> list[Gpu]:
    """The GPUs of the node that has the most."""
    none: list[Gpu] = []
    return max(nodes, key=len, default=none)


def gres_gpus(text: str) -> list[Gpu]:
    """Parse the GPUs of `gpu:a100:8(S:0-1),shard:4`, as sinfo prints them."""
    gpus: list[Gpu] = []
    for item in text.strip().split(","):
        name, *rest = item.partition("(")[0].split(":")
        if name == "gpu" and rest and rest[-1].isdigit():
            gpus += [Gpu(rest[0] if len(rest) > 1 else "gpu")] * min(int(rest[-1]), MOST_GPUS)
    return gpus


def labelled_gpus(labels: Mapping[str, str], count: int) -> list[Gpu]:
    """Return `count` GPUs of a node, as GPU feature discovery describes them in its labels."""
    major, minor = (labels.get(f"nvidia.com/gpu.compute.{part}", "") for part in ("major", "minor"))
    memory = labels.get("nvidia.com/gpu.memory", "")
    gpu = Gpu(
        labels.get("nvidia.com/gpu.product", "GPU"),
        int(memory) * MIB if memory.isdigit() else 0,
        arch_or_nothing(f"{major}.{minor}"),
        next(filter(None, (labels.get(f"nvidia.com/{name}") for name in DRIVER_LABELS)), ""),
    )
    return [gpu] * min(count, MOST_GPUS)
