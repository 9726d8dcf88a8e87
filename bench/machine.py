"""Machine: what a run was made on, and how busy it was, in words that name a kind of machine and no
particular one.
"""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

GIB = 1024**3


@dataclass(frozen=True)
class Machine:
    """`load` is the average number of runnable processes of the last minute."""

    cores: int
    processor: str
    memory: str
    system: str
    python: str
    moment: str
    load: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.cores} cores of {self.processor}, {self.memory} of memory, {self.system}, "
            f"Python {self.python}"
        )


def this_machine() -> Machine:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        processor=processor(Path("/proc/cpuinfo").read_text()),
        memory=f"{memory / GIB:.0f} GiB",
        system=f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        python=platform.python_version(),
        moment=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        load=load(),
    )


def processor(cpuinfo: str) -> str:
    """The model's name, else the architecture: not every processor tells one."""
    names = [
        line.partition(":")[2].strip()
        for line in cpuinfo.splitlines()
        if line.startswith("model name")
    ]
    return names[0] if names and names[0] != "unknown" else platform.machine()


def load() -> float:
    return round(os.getloadavg()[0], 2)
