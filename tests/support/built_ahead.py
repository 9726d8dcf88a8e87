"""What the tests' servers are made of: packages, programs and images, fetched and built before any
test starts: `python -m support.built_ahead LANE...`. So no test runs beside a compiler, and those
that run in a network of their own (tools/python-apart) need no other machine.

What cannot be had here is said by each test that wants it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from support import shellcheck
from support.cluster import cluster_here, cluster_images
from support.dockerd import dockerd_here, registry_here
from support.kubernetes import kube_files, kube_here, kube_images, programs
from support.servers import clients_here, debian, go_programs, sshd_here

PACKAGES = {
    **cluster_here.PACKAGES, **cluster_images.PACKAGES, **dockerd_here.NEEDS,
    **kube_here.PACKAGES, **kube_images.PACKAGES, **registry_here.NEEDS,
    **shellcheck.PACKAGES, **sshd_here.PACKAGES,
}  # fmt: skip
SERVERS = {name: partial(go_programs.built, name) for name in go_programs.PACKAGES}
CLIENTS = {"clients": clients_here.installed}
DEBIAN = {"Debian": dockerd_here.debian_root}
RUNTIME = Path(__file__).parents[2] / "container-runtime"
SLURM = {"images for SLURM": cluster_images.make_all}
KUBERNETES = {
    "Kubernetes": programs.programs,
    "the oldest Kubernetes": programs.oldest,
    **{
        f"archive of {name}": partial(kube_images.archive, name)
        for name in (kube_files.PAUSE, kube_files.BUSYBOX, kube_files.PYTHON)
    },
}


def make_runtime_ready() -> None:
    """The programs that the runtime is compared with, and its own environment. Its lane says what
    could not be had.
    """
    if (RUNTIME / "Makefile").is_file():
        subprocess.run(["make", "--no-print-directory", "-C", RUNTIME, "ready"], check=False)


# by lane, in the order in which they are begun
PARTS: dict[str, dict[str, Callable[[], object]]] = {
    "kubernetes": {**KUBERNETES, **SERVERS},
    "docker": {**DEBIAN, **SERVERS, **CLIENTS},
    "slurm": {**SLURM, **SERVERS},
    "contract": {**SLURM, **SERVERS},
    "others": {**SERVERS, **CLIENTS},
    "runtime": {"the runtime": make_runtime_ready},
}


def build_for(lanes: Iterable[str]) -> None:
    parts = {name: build for lane in lanes for name, build in PARTS[lane].items()}
    if not parts:
        return
    tell_time("packages", partial(debian.need, "a server", PACKAGES))
    with ThreadPoolExecutor(max_workers=2) as two_at_once:
        for built in [two_at_once.submit(tell_time, *part) for part in parts.items()]:
            built.result()


def tell_time(name: str, build: Callable[[], object]) -> None:
    began = time.monotonic()
    try:
        build()
    except (pytest.skip.Exception, pytest.fail.Exception) as missing:
        print(f"built ahead: not {name}: {missing}", file=sys.stderr)
    if (seconds := time.monotonic() - began) > 1:
        print(f"built ahead: {name} in {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    build_for(sys.argv[1:])
