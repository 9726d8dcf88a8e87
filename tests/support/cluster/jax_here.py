"""JAX for the nodes of the tests' cluster, for the Python that they have; installed once, below
.cache.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from support.cluster.cluster_here import Cluster

WANTED = Path(__file__).with_name("jax.txt")
CACHE = Path(__file__).parents[3] / ".cache"
PYTHON = "/usr/bin/python3"  # the nodes'


@functools.cache
def installed() -> Path:
    version = subprocess.run([PYTHON, "--version"], check=True, capture_output=True).stdout
    folder = CACHE / f"jax-{hashlib.sha256(WANTED.read_bytes() + version).hexdigest()[:12]}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "jax.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_suffix(".part")
            shutil.rmtree(partial, ignore_errors=True)
            pip = [
                sys.executable,
                "-m",
                "pip",
                "--python",
                PYTHON,
                "install",
                "-q",
                "--disable-pip-version-check",
            ]
            how = ["--root-user-action", "ignore", "--target", partial, "--only-binary", ":all:"]
            subprocess.run([*pip, *how, "-r", WANTED], check=True)
            partial.rename(folder)
    return folder


def place(cluster: Cluster) -> Path:
    """Where the nodes see it: wherever this clone lies, their users can read it there."""
    there = cluster.ours / "jax"
    if not there.exists():
        there.mkdir()
        cluster.run_by_hand("mount", "-o", "bind,ro", str(installed()), str(there))
    return there
