"""Platforms as their own commands show them, where the package is not installed: whether each
answers, its GPUs, the image.

`tao doctor` asks the same of a platform through its backend.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tao_sdk.backends.daemon_machine import SSH, ssh_words
from tao_sdk.backends.image_name import HUB_LOGIN, ImageName, read
from tao_sdk.model.errors import SpecError
from tao_sdk.model.finding import Finding, Severity, error, warning
from tao_sdk.model.machines import (
    GPU_QUERY,
    IMAGE_ARCHS,
    Gpu,
    Machines,
    gres_gpus,
    image_archs,
    labelled_gpus,
    most_gpus,
    parse_gpus,
)
from tao_sdk.model.printable import printable
from tao_sdk.net.json_answer import as_record
from tao_sdk.preflight.commands import Answer, ask
from tao_sdk.preflight.datasets import NotSeen, Place
from tao_sdk.preflight.images import disk_findings, file_findings, registry_findings
from tao_sdk.preflight.kubectl_trouble import Target, trouble_finding
from tao_sdk.preflight.places import OverSsh, ThisMachine, Unseen
from tao_sdk.preflight.registry import RegistryImage, size_of
from tao_sdk.preflight.requirements import GpuNeeds

NETWORK = "tao_default"
ENROOT_FILE = "~/.config/enroot/.credentials"
TARGET = "jsonpath={.current-context} {.clusters[0].cluster.server}"
NO_POD = (
    "A path of a claim is seen from a pod only.",
    "Mount the claim in a pod and look there, or put the data in a bucket: s3://...",
)


@dataclass(frozen=True)
class Wanted:
    """The requirements to check on a platform."""

    environ: Mapping[str, str]
    image: str = ""
    docker_host: str = ""
    gpus: GpuNeeds = GpuNeeds()
    smoke_image: str = ""
    pull_smoke_image: bool = False
    free_gb: float = 0.0  # of disk, in 10^9 bytes

    def ask(self, *words: str, seconds: float = 60.0) -> Answer:
        return ask(words, self.environ, seconds)


class Access:
    """One platform. `findings` reports problems with it; `gpus` raises NotSeen."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted

    def paths(self) -> Place:
        """The Place that reads the platform's paths."""
        raise NotImplementedError

    def findings(self) -> Iterator[Finding]:
        raise NotImplementedError

    def gpus(self) -> list[Gpu]:
        return gpus_of(self.wanted.ask(*GPU_QUERY))

    def free(self) -> int | None:
        """The free bytes on the disk that a job fills; None if they cannot be seen."""
        return None


def free_at(path: str) -> int | None:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def free_of(answer: Answer) -> int | None:
    """The free bytes in the answer to `df -Pk PATH`."""
    words = answer.out.strip().rpartition("\n")[2].split()
    return int(words[3]) * 1024 if answer.ok and len(words) > 3 and words[3].isdigit() else None


class LocalAccess(Access):
    """This machine, whose jobs run in no container."""

    def free(self) -> int | None:
        return free_at(".")

    def paths(self) -> Place:
        return ThisMachine()

    def findings(self) -> Iterator[Finding]:
        if self.wanted.image:
            yield error(
                "image.unused",
                f"{self.wanted.image} was not looked at: a local job runs in no container.",
                "",
                "Leave --container-image out, or run the job in it: --platform local-docker",
            )
        if self.wanted.smoke_image:
            yield smoke_not_run(
                "A local job runs in no container.", "Leave --gpu-smoke-image out, and run:",
                "nvidia-smi -L",
            )  # fmt: skip


def smoke_not_run(why: str, next: str, command: str = "") -> Finding:
    return error("gpu.smoke", "The smoke test was not run.", why, next, command)


def smoke_by_package(platform: str, image: str) -> Finding:
    """The error for a platform on which a container is a job: the package starts it."""
    command = f"tao doctor {platform} --smoke --smoke-image {shlex.quote(image)}"
    why = f"On {platform} a container is a job, and this script starts none."
    return smoke_not_run(why, "Where the package is installed, run:", command)


def gpus_of(answer: Answer) -> list[Gpu]:
    if not answer.ok:
        raise NotSeen(answer.words, "Install the NVIDIA driver, then run nvidia-smi there.")
    return parse_gpus(answer.out)


# Docker


class DockerAccess(Access):
    """A Docker daemon, of this machine or another, by the docker command."""

    def docker(self, *words: str, seconds: float = 60.0) -> Answer:
        host = ("--host", self.wanted.docker_host) if self.wanted.docker_host else ()
        return self.wanted.ask("docker", *host, *words, seconds=seconds)

    @property
    def host(self) -> str:
        return self.wanted.docker_host or self.wanted.environ.get("DOCKER_HOST", "")

    @property
    def is_here(self) -> bool:
        return not self.host or self.host.startswith("unix://")

    def paths(self) -> Place:
        if self.is_here:
            return ThisMachine()
        if words := ssh_words(self.host):
            return OverSsh(words, self.wanted.environ)
        unseen = self.unseen_machine()
        return Unseen(unseen.why, unseen.next)

    def unseen_machine(self) -> NotSeen:
        return NotSeen(
            f"The machine of {self.host} cannot be looked at from here.",
            "Name it as DOCKER_HOST=ssh://user@host.",
        )

    def gpus(self) -> list[Gpu]:
        if self.is_here:
            return super().gpus()
        if words := ssh_words(self.host):
            return gpus_of(self.wanted.ask(*words, " ".join(GPU_QUERY)))
        raise self.unseen_machine()

    def free(self) -> int | None:
        """The free bytes on the disk of the daemon's images."""
        answer = self.docker("info", "--format", "{{json .DockerRootDir}}")
        root = answer.out.strip().strip('"')
        if not answer.ok or not root.startswith("/"):
            return None
        if self.is_here:
            return free_at(root)
        words = ssh_words(self.host)
        return free_of(self.wanted.ask(*words, f"df -Pk {shlex.quote(root)}")) if words else None

    def findings(self) -> Iterator[Finding]:
        answer = self.docker("info", "--format", "{{json .}}")
        info = mapping_of(answer.out) if answer.ok else {}
        if not info.get("ServerVersion"):
            yield error(
                "docker.unreachable",
                "docker daemon not reachable. Start Docker.",
                answer.words,
                command="sudo systemctl start docker" if self.is_here else "",
            )
            return
        yield Finding(Severity.OK, "docker.daemon", f"Docker {info['ServerVersion']} answers.")
        yield from self.runtime_findings(info)
        yield from self.network_findings()
        if self.wanted.image:
            yield from self.image_findings(self.wanted.image, info)
        if self.wanted.smoke_image:
            yield from self.smoke_findings(self.wanted.smoke_image)

    def runtime_findings(self, info: Mapping[str, Any]) -> Iterator[Finding]:
        if "nvidia" in (info.get("Runtimes") or {}):
            yield Finding(Severity.OK, "docker.toolkit", "The daemon has the runtime nvidia.")
            return
        yield error(
            "docker.toolkit",
            "NVIDIA Container Toolkit not installed/configured.",
            "The daemon has no runtime nvidia.",
            command="sudo nvidia-ctk runtime configure --runtime=docker "
            "&& sudo systemctl restart docker",
        )

    def network_findings(self) -> Iterator[Finding]:
        """Check the network. The SDK makes the default network when it runs the job."""
        name = self.wanted.environ.get("DOCKER_NETWORK") or NETWORK
        if self.docker("network", "inspect", "--", name).ok:
            yield Finding(Severity.OK, "docker.network", f"The docker network {name} is there.")
            return
        severity = warning if name == NETWORK else error
        yield severity(
            "docker.network",
            f"docker network '{name}' not found.",
            "",
            "After user approval, run:",
            f"docker network create {shlex.quote(name)}",
        )

    def image_findings(self, image: str, info: Mapping[str, Any]) -> Iterator[Finding]:
        """Check that the image is present, or can be pulled, and is made for the daemon's
        machine.
        """
        host = IMAGE_ARCHS.get(str(info.get("Architecture")), str(info.get("Architecture")))
        there = self.docker("image", "inspect", "--format", "{{.Architecture}}", "--", image)
        if there.ok:
            archs, what = {there.out.strip()}, f"{image} is there."
        else:
            pullable = self.docker("manifest", "inspect", "--verbose", "--", image)
            if not pullable.ok:
                yield error(
                    "image.missing",
                    f"{image} is not there, and cannot be pulled.",
                    pullable.words,
                    "Correct the image, or log in to its registry: docker login REGISTRY",
                )
                return
            archs, what = archs_of(pullable.out), f"{image} is not there yet; it can be pulled."
            yield from disk_findings(image, pull_size(pullable.out, host), self.free())
        if archs and host not in archs:
            yield error(
                "image.architecture",
                f"{image} is made for {', '.join(sorted(archs))}; the machine is {host}.",
                "",
                "Name an image for that architecture.",
            )
            return
        yield Finding(Severity.OK, "image.there", what)

    def smoke_findings(self, image: str) -> Iterator[Finding]:
        """Run nvidia-smi in a container with all GPUs, and remove the container."""
        if not self.docker("image", "inspect", "--", image).ok and not self.wanted.pull_smoke_image:
            yield smoke_not_run(
                f"{image} is not there, and nothing is pulled without --pull-smoke-image.",
                "After user approval, add --pull-smoke-image.",
            )
            return
        answer = self.docker(
            "run", "--rm", "--gpus", "all", "--network", "none", "--", image, "nvidia-smi", "-L",
            seconds=900.0,
        )  # fmt: skip
        if answer.ok and "GPU" in answer.out:
            yield Finding(Severity.OK, "gpu.smoke", "A container with GPUs ran, and saw them.")
            return
        yield error(
            "gpu.smoke",
            "A container with GPUs did not run.",
            answer.words,
            "Set the host up for GPUs, then run this again.",
        )


def archs_of(manifest: str) -> set[str]:
    """The architectures in what `docker manifest inspect --verbose` prints."""
    names = {arch_of(entry) for entry in entries_of(manifest)}
    return names - {"", "unknown"}


def pull_size(manifest: str, arch: str) -> int:
    """The bytes to fetch for an architecture; 0 if they are not stated."""
    entries = [as_record(entry) for entry in entries_of(manifest) if arch_of(entry) == arch]
    sizes = [size_of(as_record(entry.get(form))) for entry in entries for form in MANIFEST_FORMS]
    return max(sizes, default=0)


def entries_of(manifest: str) -> list[Any]:
    try:
        told: Any = json.loads(manifest)
    except (ValueError, RecursionError):
        return []
    return cast("list[Any]", told) if isinstance(told, list) else [told]


def arch_of(entry: Any) -> str:
    try:
        return str(entry["Descriptor"]["platform"]["architecture"])
    except (KeyError, TypeError):
        return ""


def mapping_of(text: str) -> dict[str, Any]:
    try:
        told: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", told) if isinstance(told, dict) else {}


# SLURM


MANIFEST_FORMS = ("SchemaV2Manifest", "OCIManifest")  # in docker manifest inspect --verbose
TOOLS = ("sbatch", "squeue", "scancel")
EACH_TOOL = f"for name in {' '.join(TOOLS)}; do command -v $name > /dev/null && echo $name; done"
LIST_TOOLS = f"sh -c {shlex.quote(EACH_TOOL)}"  # the login shell may be a csh


class SlurmAccess(Access):
    """A SLURM cluster, by ssh to the first login node in the settings."""

    def login(self) -> list[str]:
        environ = self.wanted.environ
        user = environ.get("SLURM_USER", "")
        host = environ.get("SLURM_HOSTNAME", "").partition(",")[0].strip()
        key = environ.get("SSH_KEY_PATH", "")
        return [*SSH, *(("-i", os.path.expanduser(key)) if key else ()), "--", f"{user}@{host}"]  # noqa: PTH111

    def is_named(self) -> bool:
        return bool(self.wanted.environ.get("SLURM_USER")) and bool(
            self.wanted.environ.get("SLURM_HOSTNAME")
        )

    def paths(self) -> Place:
        if not self.is_named():
            return Unseen("The cluster is not named.", "Set SLURM_USER and SLURM_HOSTNAME.")
        return OverSsh(self.login(), self.wanted.environ)

    def findings(self) -> Iterator[Finding]:
        if not self.is_named():
            yield error(
                "slurm.unnamed",
                "set SLURM_USER and SLURM_HOSTNAME (comma-separated for failover) in your env.",
                "",
                "Ask for the user and the login nodes, such as SLURM_HOSTNAME=login1,login2.",
            )
            return
        login = self.login()
        answer = self.wanted.ask(*login, "true")
        if not answer.ok:
            yield error(
                "slurm.ssh",
                f"passwordless SSH to {login[-1]} not working.",
                answer.words,
                "Ask for SSH_KEY_PATH, and try: ssh -o BatchMode=yes " + login[-1] + " true",
            )
            return
        yield Finding(Severity.OK, "slurm.ssh", f"{login[-1]} answers without a password.")
        tools = self.wanted.ask(*login, LIST_TOOLS)
        missing = [name for name in TOOLS if name not in tools.out.split()]
        if missing:
            yield error(
                "slurm.tools",
                f"{login[-1]} has no {' and no '.join(missing)}.",
                "A command over ssh does not find it.",
                "Name a login node of the cluster in SLURM_HOSTNAME.",
            )
        if self.wanted.image:
            yield from self.image_findings()
        if self.wanted.smoke_image:
            yield smoke_by_package("slurm", self.wanted.smoke_image)

    def free(self) -> int | None:
        """The free bytes on the disk of the base directory."""
        base = self.wanted.environ.get("SLURM_BASE_RESULTS_DIR", "")
        if not base or not self.is_named():
            return None
        return free_of(self.wanted.ask(*self.login(), f"df -Pk {shlex.quote(base)}"))

    def image_findings(self) -> Iterator[Finding]:
        """Check a file of the cluster, or an image that enroot fetches on the nodes."""
        arch = self.wanted.ask(*self.login(), "uname -m").out.strip()
        host = Machines(archs=image_archs([arch]))
        name, findings, image = looked_up(self.wanted, host)
        if name and name.file:
            yield from file_findings(name.file, self.paths())
        yield from findings
        if name and image and image.private:
            yield from self.enroot_findings(name.registry)

    def enroot_findings(self, registry: str) -> Iterator[Finding]:
        """Check enroot's credentials for a private image: enroot fetches it with a file of its
        own.
        """
        host = registry or HUB_LOGIN
        entry = f"machine[[:space:]]+{re.escape(host)}([[:space:]]|$)"
        look = f"grep -q -s -E {shlex.quote(entry)} {ENROOT_FILE}"
        if self.wanted.ask(*self.login(), look).ok:
            what = f"enroot has credentials for {host} on the cluster."
            yield Finding(Severity.OK, "slurm.enroot_credentials", what)
            return
        yield error(
            "slurm.enroot_credentials",
            f"enroot has no credentials for {host} on the cluster.",
            f"{ENROOT_FILE} there does not name it. enroot does not read NGC_KEY.",
            f"Add there, with mode 0600: machine {host} login USER password KEY",
        )

    def gpus(self) -> list[Gpu]:
        """The GPUs of the largest node that the partitions have. Their memory is not known."""
        if not self.is_named():
            raise NotSeen("The cluster is not named.", "Set SLURM_USER and SLURM_HOSTNAME.")
        partition = self.wanted.environ.get("SLURM_PARTITION", "")
        words = ["sinfo", "--noheader", "--format=%G"]
        if partition:
            words.append(f"--partition={partition}")
        answer = self.wanted.ask(*self.login(), shlex.join(words))
        if not answer.ok:
            raise NotSeen(answer.words, "Check SLURM_PARTITION.")
        return most_gpus(gres_gpus(line) for line in answer.out.splitlines())


# Kubernetes


class KubernetesAccess(Access):
    """A cluster, by kubectl."""

    def kubectl(self, *words: str) -> Answer:
        context = self.wanted.environ.get("TAO_K8S_CONTEXT", "")
        return self.wanted.ask("kubectl", *(("--context", context) if context else ()), *words)

    def paths(self) -> Place:
        return Unseen(*NO_POD)

    def findings(self) -> Iterator[Finding]:
        space = self.wanted.environ.get("TAO_K8S_NAMESPACE") or "default"
        answer = self.kubectl("auth", "can-i", "create", "jobs.batch", "--namespace", space)
        told = answer.out.strip()
        if told == "yes":
            yield Finding(Severity.OK, "kubernetes.jobs", f"You may create Jobs in {space}.")
        elif told == "no":
            yield error(
                "kubernetes.jobs",
                f"You may not create Jobs in the namespace {space}.",
                "",
                "Ask the cluster's administrator, or set TAO_K8S_NAMESPACE.",
            )
        else:
            yield trouble_finding(answer.words, self.target())
        if self.wanted.image:
            yield from self.image_findings()
        if self.wanted.smoke_image:
            yield smoke_by_package("kubernetes", self.wanted.smoke_image)

    def target(self) -> Target:
        """The cluster that kubectl asks, from the kubeconfig alone."""
        shown = self.kubectl("config", "view", "--minify", "-o", TARGET)
        context, _, server = shown.out.strip().partition(" ")
        if not shown.ok:
            return Target(self.wanted.environ.get("TAO_K8S_CONTEXT", ""))
        return Target(printable(context), printable(server))

    def image_findings(self) -> Iterator[Finding]:
        """Check an image that the nodes' kubelets fetch."""
        try:
            archs = image_archs(map(node_arch, self.nodes()))
        except NotSeen:
            archs = ()  # the GPUs are looked for by the same question, and say so
        _, findings, _ = looked_up(self.wanted, Machines(archs=archs))
        yield from findings

    def gpus(self) -> list[Gpu]:
        """The GPUs of the largest node."""
        return most_gpus(map(node_gpus, self.nodes()))

    def nodes(self) -> list[Any]:
        """The nodes of the cluster. Raises NotSeen."""
        answer = self.kubectl("get", "nodes", "-o", "json")
        if not answer.ok:
            raise NotSeen(answer.words, "Allow your role to list nodes.")
        items: Any = mapping_of(answer.out).get("items")
        return cast("list[Any]", items) if isinstance(items, list) else []


def node_gpus(node: Any) -> list[Gpu]:
    """The GPUs that the node offers, with the labels of GPU feature discovery."""
    try:
        labels: dict[str, str] = node["metadata"].get("labels") or {}
        count = int(node["status"]["allocatable"].get("nvidia.com/gpu", "0"))
        return labelled_gpus(labels, count)
    except (AttributeError, KeyError, TypeError, ValueError):
        return []


def node_arch(node: Any) -> str:
    try:
        return str(node["status"]["nodeInfo"]["architecture"])
    except (KeyError, TypeError):
        return ""


# Images that a cluster fetches


def looked_up(
    wanted: Wanted, host: Machines
) -> tuple[ImageName | None, list[Finding], RegistryImage | None]:
    """The image's name, its findings, and its registry's description. There is none for a file."""
    try:
        name = read(wanted.image)
    except SpecError as mistake:
        return None, [Finding.of_error(mistake)], None
    if name.file:
        return name, [], None
    findings, image = registry_findings(name, wanted.environ, host)
    return name, findings, image


PLATFORMS: Mapping[str, Callable[[Wanted], Access]] = {
    "local": LocalAccess,
    "local-docker": DockerAccess,
    "slurm": SlurmAccess,
    "kubernetes": KubernetesAccess,
}


def access_to(platform: str, wanted: Wanted) -> Access | None:
    """The access to a platform; None if the platform cannot be looked at."""
    made = PLATFORMS.get(platform)
    return made(wanted) if made else None
