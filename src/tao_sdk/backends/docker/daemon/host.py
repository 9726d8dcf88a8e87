"""The GPU software of this machine against what TAO's documents ask for: driver, CUDA, CUDA
Toolkit, NVIDIA Container Toolkit.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tao_sdk.model.finding import Finding, Severity

SECONDS = 10  # that a program may take to say its version
APT, DNF, ZYPPER = "sudo apt-get install --yes", "sudo dnf install -y", "sudo zypper install -y"
INSTALLERS = {
    "apt-get": APT,
    "dnf": DNF,
    "zypper": ZYPPER,
}  # the first that is here; APT where none is
DRIVER = {
    APT: "nvidia-open-580",
    DNF: "nvidia-driver-cuda kmod-nvidia-open-dkms",
    ZYPPER: "nvidia-open-driver-G06-signed-kmp-default",
}
TOOLKIT = dict.fromkeys((DNF, ZYPPER), "nvidia-container-toolkit-1.19.0-1") | {
    APT: "nvidia-container-toolkit=1.19.0-1"
}
CUDA: Mapping[str, str] = dict.fromkeys(INSTALLERS.values(), "cuda-toolkit-13-0")
PLACES = (
    "/usr/local/cuda-13.0/bin",
    "/usr/local/cuda/bin",
)  # where its packages put nvcc, which is often not in PATH
DOCKER = {APT: "docker.io", DNF: "docker-ce", ZYPPER: "docker"}


@dataclass(frozen=True)
class Part:
    """A part of the host's software: who tells its version, and the oldest that the
    documents name.
    """

    code: str
    name: str
    argv: Sequence[str]
    version: str  # a pattern whose first group is the version
    wanted: str
    packages: Mapping[str, str]


PARTS = (
    Part("docker.driver", "NVIDIA driver", ("nvidia-smi", "--query-gpu=driver_version",
         "--format=csv,noheader"),
         r"^(\d+(?:\.\d+)+)\s*$", "580", DRIVER),
    Part("docker.cuda", "The driver's CUDA", ("nvidia-smi",), r"CUDA Version:\s*(\d+\.\d+)", "13.0",
         DRIVER),
    Part("docker.cuda_toolkit", "CUDA Toolkit", ("nvcc", "--version"), r"release (\d+\.\d+)",
         "13.0", CUDA),
    Part("docker.toolkit_version", "NVIDIA Container Toolkit", ("nvidia-ctk", "--version"),
         r"version (\d+\.\d+\.\d+)", "1.19.0", TOOLKIT),
)  # fmt: skip


def version_findings() -> Iterator[Finding]:
    """Nothing is said of a part that does not tell its version."""
    for part in PARTS:
        if seen := re.search(part.version, said_by(part.argv), re.MULTILINE):
            yield judged(part, seen[1])


def judged(part: Part, version: str) -> Finding:
    what = f"{part.name} {version}; TAO's images are made for {part.wanted}."
    if numbers(version) < numbers(part.wanted):
        return Finding(
            Severity.WARNING, part.code, what, "It is older.", command=install(part.packages)
        )
    return Finding(Severity.OK, part.code, what)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def install(packages: Mapping[str, str]) -> str:
    """The command that installs them on this machine."""
    installer = next((words for program, words in INSTALLERS.items() if shutil.which(program)), APT)
    return f"{installer} {packages[installer]}"


def said_by(argv: Sequence[str]) -> str:
    path = shutil.which(argv[0]) or shutil.which(argv[0], path=os.pathsep.join(PLACES))
    if path is None:
        return ""
    try:
        return subprocess.run(
            [path, *argv[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
