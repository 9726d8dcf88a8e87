"""The backends that the contract suite runs on, and what it needs to know of each to look behind it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tao_sdk.client import Client
from tao_sdk.model.settings import Settings


@dataclass(frozen=True)
class Place:
    """One backend under test. `running` counts the processes of a job that really run, without asking the SDK."""

    platform: str
    state: Path
    running: Callable[[str], int]
    fails_by_infrastructure: str  # a command that the place fails, not the program

    def environ(self) -> dict[str, str]:
        return {**os.environ, "TAO_SDK_STATE_DIR": str(self.state)}

    def client(self, watch: bool = False) -> Client:
        return Client(settings=Settings(self.environ()), watch=watch)


def processes_of(job_id: str) -> int:
    """The live processes whose environment says that they belong to the job. A zombie is not live."""
    return sum(1 for pid in Path("/proc").iterdir() if pid.name.isdigit() and _belongs(pid, job_id) and _lives(pid))


def _belongs(process: Path, job_id: str) -> bool:
    try:
        return f"TAO_JOB_ID={job_id}".encode() in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _lives(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def local(folder: Path) -> Place:
    return Place("local", folder / "state", processes_of, "kill -9 $PPID; sleep 0.1")


PLACES = {"local": local}
