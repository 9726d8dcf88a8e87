"""The machine that a cluster runs on: `machine.py FOLDER` is the first process in a network, a
mount and a process namespace of its own (kube_here.py starts it so).

It has a /run, a /var/lib/kubelet and a /var/log of its own, and its own names of hosts, so that two
clusters and this computer do not meet; every other path is the computer's. It then collects dead
processes, and ends when its standard input does. With it ends everything that runs on the machine:
the kernel sees to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

# Folders of this computer that the machine has its own instead of.
OWN_FOLDERS = {
    "run": "/run",
    "kubelet": "/var/lib/kubelet",
    "log/machine": "/var/log",
}
# What the kubelet wants of the kernel. It reads here that all is well, and changes no setting of
# this computer.
OWN_SETTINGS = {
    "/proc/sys/vm/overcommit_memory": "1",
    "/proc/sys/kernel/panic": "10",
    "/proc/sys/kernel/panic_on_oops": "1",
}


def mount_over(source: Path, target: str) -> None:
    subprocess.run(["mount", "--bind", str(source), target], check=True)


def mount_own(folder: Path) -> None:
    for name, target in OWN_FOLDERS.items():
        (folder / name).mkdir(parents=True)
        Path(target).mkdir(parents=True, exist_ok=True)
        mount_over(folder / name, target)
    for name in ("resolv.conf", "hosts"):
        mount_over_file(folder / name, Path("/etc", name).resolve())
    (folder / "settings").mkdir()
    for target, value in OWN_SETTINGS.items():
        own = folder / "settings" / Path(target).name
        own.write_text(f"{value}\n")
        mount_over(own, target)


def mount_over_file(own: Path, target: Path) -> None:
    """The computer's may be below /run, which is empty here."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount_over(own, str(target))


def collect_dead(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main(folder: str) -> None:
    mount_own(Path(folder))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    signal.signal(signal.SIGCHLD, collect_dead)
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
