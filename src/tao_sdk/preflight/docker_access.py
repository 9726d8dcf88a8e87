"""Access to a Docker daemon, of this machine or another, by the docker command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, cast

from tao_sdk.backends.daemon_machine import ssh_words
from tao_sdk.model.finding import Finding, Severity, error, warning
from tao_sdk.model.machines import GPU_QUERY, IMAGE_ARCHS, Gpu
from tao_sdk.net.json_answer import as_record
from tao_sdk.preflight.access import Access, free_at, free_of, gpus_of, read_mapping, smoke_not_run
from tao_sdk.preflight.commands import Answer
from tao_sdk.preflight.datasets import NotSeen, Place
from tao_sdk.preflight.images import disk_findings
from tao_sdk.preflight.places import OverSsh, ThisMachine, Unseen
from tao_sdk.preflight.registry import size_of

NETWORK = "tao_default"
MANIFEST_FORMS = ("SchemaV2Manifest", "OCIManifest")  # in docker manifest inspect --verbose


class DockerAccess(Access):
    """A Docker daemon, of this machine or another, by the docker command."""

    def docker(self, *words: str, seconds: float = 60.0) -> Answer:
        host = ("--host", self.check.docker_host) if self.check.docker_host else ()
        return self.check.ask("docker", *host, *words, seconds=seconds)

    @property
    def host(self) -> str:
        return self.check.docker_host or self.check.environ.get("DOCKER_HOST", "")

    @property
    def is_here(self) -> bool:
        return not self.host or self.host.startswith("unix://")

    def paths(self) -> Place:
        if self.is_here:
            return ThisMachine()
        if words := ssh_words(self.host):
            return OverSsh(words, self.check.environ)
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
            return gpus_of(self.check.ask(*words, " ".join(GPU_QUERY)))
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
        return free_of(self.check.ask(*words, f"df -Pk {shlex.quote(root)}")) if words else None

    def findings(self) -> Iterator[Finding]:
        answer = self.docker("info", "--format", "{{json .}}")
        info = read_mapping(answer.out) if answer.ok else {}
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
        if self.check.image:
            yield from self.image_findings(self.check.image, info)
        if self.check.smoke_image:
            yield from self.smoke_findings(self.check.smoke_image)

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
        name = self.check.environ.get("DOCKER_NETWORK") or NETWORK
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
            yield architecture_finding(image, {there.out.strip()}, host, "is there.")
            return
        pullable = self.docker("manifest", "inspect", "--verbose", "--", image)
        if not pullable.ok:
            yield error(
                "image.missing",
                f"{image} is not there, and cannot be pulled.",
                pullable.words,
                "Correct the image, or log in to its registry: docker login REGISTRY",
            )
            return
        yield from disk_findings(image, pull_size(pullable.out, host), self.free())
        archs = archs_of(pullable.out)
        yield architecture_finding(image, archs, host, "is not there yet; it can be pulled.")

    def smoke_findings(self, image: str) -> Iterator[Finding]:
        """Run nvidia-smi in a container with all GPUs, and remove the container."""
        if not self.docker("image", "inspect", "--", image).ok and not self.check.pull_smoke_image:
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


def architecture_finding(image: str, archs: set[str], host: str, where: str) -> Finding:
    """An error for an image that is not made for the machine, else `where` the image is. An image
    that states no architecture fits.
    """
    if archs and host not in archs:
        return error(
            "image.architecture",
            f"{image} is made for {', '.join(sorted(archs))}; the machine is {host}.",
            "",
            "Name an image for that architecture.",
        )
    return Finding(Severity.OK, "image.there", f"{image} {where}")


# Manifests


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
