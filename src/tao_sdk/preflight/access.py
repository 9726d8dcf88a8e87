"""Access to a platform by its own commands, where the package is not installed: whether it answers,
its GPUs, the image.

Here: what all platforms share. The access to each: local_access.py, docker_access.py,
slurm_access.py, kubernetes_access.py. `tao doctor` asks the same of a platform through its backend.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tao_sdk.backends.image_name import ImageName, read
from tao_sdk.model.errors import SpecError
from tao_sdk.model.finding import Finding, error
from tao_sdk.model.machines import GPU_QUERY, Gpu, Machines, parse_gpus
from tao_sdk.preflight.commands import Answer, ask
from tao_sdk.preflight.datasets import NotSeen, Place
from tao_sdk.preflight.images import registry_findings
from tao_sdk.preflight.registry import RegistryImage
from tao_sdk.preflight.requirements import GpuNeeds


@dataclass(frozen=True)
class PlatformCheck:
    """The requirements to check on a platform, and the environment of its commands."""

    environ: Mapping[str, str]
    image: str = ""
    docker_host: str = ""
    gpus: GpuNeeds = GpuNeeds()
    smoke_image: str = ""
    pull_smoke_image: bool = False
    free_gb: float = 0.0  # of disk, in 10^9 bytes

    def ask(self, *words: str, seconds: float = 60.0) -> Answer:
        """The answer of a command, which has this many seconds for it."""
        return ask(words, self.environ, seconds)


class Access:
    """One platform. `findings` reports problems with it; `gpus` raises NotSeen."""

    def __init__(self, check: PlatformCheck) -> None:
        self.check = check

    def paths(self) -> Place:
        """The Place that reads the platform's paths."""
        raise NotImplementedError

    def findings(self) -> Iterator[Finding]:
        raise NotImplementedError

    def gpus(self) -> list[Gpu]:
        return gpus_of(self.check.ask(*GPU_QUERY))

    def free(self) -> int | None:
        """The free bytes on the disk that a job fills; None if they cannot be seen."""
        return None


def free_at(path: str) -> int | None:
    """The free bytes on the disk of a path of this machine; None if they cannot be seen."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def free_of(answer: Answer) -> int | None:
    """The free bytes in the answer to `df -Pk PATH`."""
    words = answer.out.strip().rpartition("\n")[2].split()
    return int(words[3]) * 1024 if answer.ok and len(words) > 3 and words[3].isdigit() else None


def smoke_not_run(why: str, next: str, command: str = "") -> Finding:
    return error("gpu.smoke", "The smoke test was not run.", why, next, command)


def smoke_by_package(platform: str, image: str) -> Finding:
    """The error for a platform on which a container is a job: the package starts it."""
    command = f"tao doctor {platform} --smoke --smoke-image {shlex.quote(image)}"
    why = f"On {platform} a container is a job, and this script starts none."
    return smoke_not_run(why, "Where the package is installed, run:", command)


def gpus_of(answer: Answer) -> list[Gpu]:
    """The GPUs in the answer of nvidia-smi. Raises NotSeen."""
    if not answer.ok:
        raise NotSeen(answer.words, "Install the NVIDIA driver, then run nvidia-smi there.")
    return parse_gpus(answer.out)


def read_mapping(text: str) -> dict[str, Any]:
    """The JSON object in the output of a command; empty if it is none."""
    try:
        told: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", told) if isinstance(told, dict) else {}


def find_image(
    check: PlatformCheck, host: Machines
) -> tuple[ImageName | None, list[Finding], RegistryImage | None]:
    """The image's name, its findings, and its registry's description. There is none for a file."""
    try:
        name = read(check.image)
    except SpecError as mistake:
        return None, [Finding.of_error(mistake)], None
    if name.file:
        return name, [], None
    findings, image = registry_findings(name, check.environ, host)
    return name, findings, image
