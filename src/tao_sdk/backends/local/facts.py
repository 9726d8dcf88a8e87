"""Facts about this machine: what a job needs to know of it before it is planned.
Pure data, dated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi lists it. Memory in MiB."""

    index: int
    uuid: str
    name: str
    memory: int = 0
    used: int = 0
    held_by: str = ""  # the job that has locked it

    @property
    def key(self) -> str:
        """How the supervisor is told of it."""
        return f"{self.index}:{self.uuid}"


@dataclass(frozen=True)
class LocalFacts:
    """This machine as one job would find it."""

    cwd: str
    state_dir: str
    environment: Mapping[str, str] = field(repr=False)  # the caller's, without secrets
    gpus: tuple[Gpu, ...] = ()
    gpu_trouble: str = ""  # why nvidia-smi, which is there, did not answer
    lock_folder: str = ""
    venv_python: bool = True  # the virtual environment asked for has a python
    # declared inputs: path -> why it cannot be had
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    # path of one of those -> what was probably meant
    advice: Mapping[str, str] = field(default_factory=dict[str, str])
    # path of an input's link -> the live job that has it for another source
    link_holders: Mapping[str, str] = field(default_factory=dict[str, str])
    in_the_way: tuple[str, ...] = ()  # paths of inputs' links where something else lies
    results_writable: bool = True
    disk_free: int = 0  # bytes, where the results will lie
