"""Host: this machine's GPU software, compared with the versions in TAO's documents.

Driver, CUDA, CUDA Toolkit, NVIDIA Container Toolkit.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.gpu_host import targets

SECONDS = 10  # timeout of a program that prints its version
APT, DNF, ZYPPER = "sudo apt-get install --yes", "sudo dnf install -y", "sudo zypper install -y"
INSTALLERS = {
    "apt-get": APT,
    "dnf": DNF,
    "zypper": ZYPPER,
}  # the first one installed is used; APT if none is
DOCKER = {APT: "docker.io", DNF: "docker-ce", ZYPPER: "docker"}


@dataclass(frozen=True)
class Part:
    """A part of the host's GPU software, and the program that prints its version."""

    code: str
    name: str
    argv: Sequence[str]  # the program that prints the version
    version: str  # a pattern whose first group is the version
    oldest: str  # the oldest version that the documents name
    packages: Mapping[str, str]  # installer -> package


@functools.cache
def parts() -> Sequence[Part]:
    """The parts, and the oldest version of each that TAO's images are made for."""
    target = targets()
    release = target["NVIDIA_CUDA_RELEASE"]
    toolkit = target["NVIDIA_CONTAINER_TOOLKIT_VERSION"]
    return (
        Part(
            code="docker.driver",
            name="NVIDIA driver",
            argv=("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
            version=r"^(\d+(?:\.\d+)+)\s*$",
            oldest=target["NVIDIA_DRIVER_BRANCH"],
            packages=driver_packages(),
        ),
        Part(
            code="docker.cuda",
            name="The driver's CUDA",
            argv=("nvidia-smi",),
            version=r"CUDA Version:\s*(\d+\.\d+)",
            oldest=release,
            packages=driver_packages(),
        ),
        Part(
            code="docker.cuda_toolkit",
            name="CUDA Toolkit",
            argv=("nvcc", "--version"),
            version=r"release (\d+\.\d+)",
            oldest=release,
            packages=dict.fromkeys(INSTALLERS.values(), target["NVIDIA_CUDA_PACKAGE"]),
        ),
        Part(
            code="docker.toolkit_version",
            name="NVIDIA Container Toolkit",
            argv=("nvidia-ctk", "--version"),
            version=r"version (\d+\.\d+\.\d+)",
            oldest=toolkit.partition("-")[0],
            packages={
                APT: f"nvidia-container-toolkit={toolkit}",
                DNF: f"nvidia-container-toolkit-{toolkit}",
                ZYPPER: f"nvidia-container-toolkit-{toolkit}",
            },
        ),
    )


def driver_packages() -> Mapping[str, str]:
    target = targets()
    return {
        APT: target["NVIDIA_DRIVER_PACKAGE_DEBIAN"],
        DNF: f"{target['NVIDIA_DRIVER_PACKAGE_RHEL']} {target['NVIDIA_DRIVER_KMOD_RHEL']}",
        ZYPPER: target["NVIDIA_DRIVER_PACKAGE_SUSE"],
    }


def version_findings() -> Iterator[Finding]:
    """One finding for each part that prints its version."""
    for part in parts():
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


def cuda_programs() -> str:
    """The folders in which CUDA's packages put nvcc, in the form of PATH. PATH often lacks them."""
    return os.pathsep.join((f"{targets()['NVIDIA_CUDA_PATH']}/bin", "/usr/local/cuda/bin"))


def read_output(argv: Sequence[str]) -> str:
    """The program's output; "" if it is not here, does not run, or takes too long."""
    path = shutil.which(argv[0]) or shutil.which(argv[0], path=cuda_programs())
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
