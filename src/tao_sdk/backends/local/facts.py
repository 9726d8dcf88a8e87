"""LocalFacts: the facts about this machine for a job's plan. Pure data, dated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Gpu:
    """One GPU in nvidia-smi's list. Memory in MiB."""

    index: int
    uuid: str
    name: str
    memory: int = 0
    used: int = 0
    held_by: str = ""  # the job that has locked it

    @property
    def key(self) -> str:
        """Its name in the supervisor's message: `index:uuid`."""
        return f"{self.index}:{self.uuid}"


@dataclass(frozen=True)
class LocalFacts:
    """This machine from the view of one job."""

    cwd: str
    state_dir: str
    environment: Mapping[str, str] = field(repr=False)  # the caller's, without secrets
    gpus: tuple[Gpu, ...] = ()
    gpu_trouble: str = ""  # why an installed nvidia-smi did not answer
    lock_folder: str = ""
    venv_python: bool = True  # the requested virtual environment has a python
    # path of a declared input -> why it is not available
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    # path in `missing` -> advice, such as a similar path
    advice: Mapping[str, str] = field(default_factory=dict[str, str])
    # path of an input's link -> the live job that uses it for another source
    link_holders: Mapping[str, str] = field(default_factory=dict[str, str])
    in_the_way: tuple[str, ...] = ()  # paths of inputs' links that something else occupies
    results_writable: bool = True
    disk_free: int = 0  # bytes free on the disk of the results
