"""DockerFacts: what was seen of a daemon, its image and network, and of the caller, when a job was
planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tao_sdk.model.finding import Finding


@dataclass(frozen=True)
class SeenInput:
    """A declared input that is a path in the job. `place`: what it is on the daemon's machine, ""
    where no mount has it.
    """

    key: str
    path: str
    place: str
    there: bool | None  # None: that could not be seen, because the image is not there yet


@dataclass(frozen=True)
class DockerFacts:
    """`local`: the daemon sees this machine's paths. `image` is None where the daemon does not have
    it yet.
    """

    local: bool
    cwd: str
    home: str
    uid: int
    gid: int
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    image: Mapping[str, Any] | None = None
    networks: tuple[str, ...] = ()
    network: str = ""  # the one asked for by the caller's surroundings, if any
    pull: str = "missing"
    auto_remove: bool = False
    ssh_path: str = ""
    missing: Mapping[str, str] = field(
        default_factory=dict[str, str]
    )  # path on the daemon's host -> why
    inputs: tuple[SeenInput, ...] = ()
    unmounted: tuple[
        tuple[str, str], ...
    ] = ()  # (key, path) of the spec that neither a mount nor the image has
    volumes: Mapping[str, str] = field(
        default_factory=dict[str, str]
    )  # name -> its folder on the daemon's machine
    gpus: tuple[int, ...] = ()  # those that nvidia-smi shows here
    refusals: tuple[
        Finding, ...
    ] = ()  # what the daemon or a registry would refuse, asked beforehand
    open_at: str = (
        ""  # the daemon's address, where everybody on the way to it can read what is sent
    )
    login: str = ""  # the registry that a login has to be sent to, if one has
    held: Mapping[int, str] = field(
        default_factory=dict[int, str]
    )  # GPU -> the container that has it

    @property
    def tegra(self) -> bool:
        return "tegra" in str(self.info.get("KernelVersion", ""))
