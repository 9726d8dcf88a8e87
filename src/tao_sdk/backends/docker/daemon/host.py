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
    """A part of the host's GPU software, and how to ask for its version."""

    code: str
    name: str
    argv: Sequence[str]  # the program that prints the version
    version: str  # a pattern whose first group is the version
    oldest: str  # the oldest version that the documents name
    packages: Mapping[str, str]  # installer -> package


PARTS = (
    Part(
        code="docker.driver",
        name="NVIDIA driver",
        argv=("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        version=r"^(\d+(?:\.\d+)+)\s*$",
        oldest="580",
        packages=DRIVER,
    ),
    Part(
        code="docker.cuda",
        name="The driver's CUDA",
        argv=("nvidia-smi",),
        version=r"CUDA Version:\s*(\d+\.\d+)",
        oldest="13.0",
        packages=DRIVER,
    ),
    Part(
        code="docker.cuda_toolkit",
        name="CUDA Toolkit",
        argv=("nvcc", "--version"),
        version=r"release (\d+\.\d+)",
        oldest="13.0",
        packages=CUDA,
    ),
    Part(
        code="docker.toolkit_version",
        name="NVIDIA Container Toolkit",
        argv=("nvidia-ctk", "--version"),
        version=r"version (\d+\.\d+\.\d+)",
        oldest="1.19.0",
        packages=TOOLKIT,
    ),
)


def version_findings() -> Iterator[Finding]:
    """One finding for each part that prints its version."""
    for part in PARTS:
        match = re.search(part.version, read_output(part.argv), re.MULTILINE)
        if match:
            yield version_finding(part, match[1])


def version_finding(part: Part, version: str) -> Finding:
    what = f"{part.name} {version}; TAO's images are made for {part.oldest}."
    if version_numbers(version) < version_numbers(part.oldest):
        return Finding(
            Severity.WARNING,
            part.code,
            what,
            "It is older.",
            command=install_command(part.packages),
        )
    return Finding(Severity.OK, part.code, what)


def version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def install_command(packages: Mapping[str, str]) -> str:
    """The command that installs the packages on this machine."""
    installer = find_installer()
    return f"{installer} {packages[installer]}"


def find_installer() -> str:
    for program, installer in INSTALLERS.items():
        if shutil.which(program):
            return installer
    return APT


def read_output(argv: Sequence[str]) -> str:
    """What the program prints; "" if it is not here, does not run, or takes too long."""
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
