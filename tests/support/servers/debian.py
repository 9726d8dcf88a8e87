"""Debian's packages that the real parts of the tests come from, installed where we may."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

# Tests that run beside each other may want packages in one moment, and nothing waits for the lock
# of apt's lists.
LOCK = Path(tempfile.gettempdir()) / "tao-tests-apt.lock"


def missing(backend: str, words: str) -> Any:
    """Fail where everything must be tested, else skip and say why."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{backend} is not tested: {words}")


def need(backend: str, packages: Mapping[str, str]) -> None:
    """Install the packages of the programs (by name) and files (by path) that are not here."""
    if not (wanted := absent(packages)):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        missing(backend, f"{', '.join(wanted)} must be installed by root")
    apt("update")
    done = apt("install", "--no-install-recommends", *wanted)
    if absent(packages):
        missing(backend, f"apt-get install {' '.join(wanted)}: {done.stderr[-500:]}")


def absent(packages: Mapping[str, str]) -> list[str]:
    """Their packages, each once."""
    here = {
        name: Path(name).exists() if name.startswith("/") else shutil.which(name)
        for name in packages
    }
    return sorted({packages[name] for name, found in here.items() if not found})


def apt(*words: str) -> subprocess.CompletedProcess[str]:
    """RUNLEVEL=1 keeps packages from starting daemons of their own."""
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    command = ["flock", str(LOCK), "apt-get", "-qy", "-o", "DPkg::Lock::Timeout=300", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True)
