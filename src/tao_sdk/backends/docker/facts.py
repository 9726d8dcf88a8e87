"""DockerFacts: the state of a daemon, its image and network, and of the caller, for a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tao_sdk.model.finding import Finding


@dataclass(frozen=True)
class SeenInput:
    """A declared input that is a path in the job, and whether it will exist there."""

    key: str
    path: str
    host_path: str  # the same on the daemon's machine; "" if no mount has it
    exists: bool | None  # None: not known, because only the image may have it and is not pulled yet


@dataclass(frozen=True)
class DockerFacts:
    """The facts for render and check. survey asks only for the facts that the job needs."""

    # The caller
    local: bool  # the daemon sees this machine's paths
    cwd: str
    home: str
    uid: int
    gid: int
    network: str = ""  # DOCKER_NETWORK, "" if it is not set
    pull: str = "missing"
    auto_remove: bool = False
    ssh_path: str = ""

    # The daemon
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])  # its answer to GET /info
    image: Mapping[str, Any] | None = None  # None: the daemon does not have the job's image yet
    near_images: tuple[str, ...] = ()  # similar names, if the image is missing and is not pulled
    networks: tuple[str, ...] = ()
    # volume -> its folder on the daemon's machine
    volumes: Mapping[str, str] = field(default_factory=dict[str, str])
    plaintext_address: str = ""  # the daemon's address if anyone on the way can read what is sent
    login_registry: str = ""  # the registry that the job's pull logs in to
    refusals: tuple[Finding, ...] = ()  # what the daemon or a registry would refuse

    # Paths of the job
    # mounted path that the daemon's machine lacks -> why
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    # volumes that are also the name of a folder in the caller's working directory
    folders_here: tuple[str, ...] = ()
    inputs: tuple[SeenInput, ...] = ()
    unmounted: tuple[tuple[str, str], ...] = ()  # (key, path) that no mount and no image has

    loses_results: bool = False  # nothing outside the container keeps the job's outputs

    # GPUs, seen by nvidia-smi on this machine
    gpus: tuple[int, ...] = ()
    # GPU -> the container that uses it
    busy_gpus: Mapping[int, str] = field(default_factory=dict[int, str])

    @property
    def tegra(self) -> bool:
        """True on a Jetson. Its GPU needs the nvidia runtime."""
        return "tegra" in str(self.info.get("KernelVersion", ""))
