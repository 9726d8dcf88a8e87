"""Machines of the stand-in's instances: each running instance has a real sshd and a real dockerd in
process and mount namespaces of their own, on this computer. What it stops or deletes ends with all
that runs there.

This computer's files are read-only there, except /run, which is the machine's own. An `nvidia-smi`
and an nvidia hook exist in name only, so that `--gpus` is kept and can be read back.
"""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support import marks
from support.brev.account import Account
from support.brev.control_plane import Record
from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import BUSYBOX, CACHE, PYTHON
from support.servers import debian
from support.servers.ports import free_port
from support.servers.sshd_here import Sshd
from support.waiting import until

ME = pwd.getpwuid(os.getuid()).pw_name
# $1: the machine's folder. Its first process gets the namespaces ready and waits for its end.
BOOT = """
set -e
mount -t proc proc /proc
mount --bind "$1" "$1"
mount --bind "$1/run" /run
mkdir -p /run/sshd
mount -o remount,bind,ro /
export PATH="$1/programs:$PATH" TMPDIR="$1/tmp"
dockerd --config-file "$1/daemon.json" --data-root "$1/data" --bridge=none --iptables=false \
    --host unix:///run/docker.sock >"$1/dockerd.log" 2>&1 &
[ -z "$2" ] || "$2" -D -e -f "$1/sshd_config" >"$1/log" 2>&1 &
echo booted
cat >/dev/null
"""
GPU_LINE = (
    "echo '{index}, GPU-{index:08d}-0000-0000-0000-000000000000, Stand-in, 46068 MiB, 4 MiB'\n"
)


class Machine:
    """The machine of one instance, below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def boot(self, gpus: int, sshd: str) -> None:
        for name in ("run", "tmp", "programs"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "daemon.json").write_text("{}")
        self.write_programs(gpus)
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        self.process = subprocess.Popen(
            [*namespaces, "sh", "-c", BOOT, "sh", str(self.folder), sshd],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "booted\n"

    def write_programs(self, gpus: int) -> None:
        listing = "".join(GPU_LINE.format(index=index) for index in range(gpus))
        for name, text in {"nvidia-smi": listing, "nvidia-container-runtime-hook": ""}.items():
            program = self.folder / "programs" / name
            program.write_text(f"#!/bin/sh\n{text}")
            program.chmod(0o755)

    def docker(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Call docker on the machine, without ssh."""
        host = f"unix://{self.folder}/run/docker.sock"
        return subprocess.run(["docker", "-H", host, *words], capture_output=True, text=True)

    def answers(self) -> bool:
        return self.docker("version").returncode == 0

    def end(self) -> None:
        """The machine is switched off: all its processes end at once."""
        if self.process is not None:
            self.process.communicate()  # its first process ends with its standard input
            self.process = None


class Machines:
    """Gives the instances of an account their machines while the block lasts."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.folder = Path(tempfile.mkdtemp(prefix="brev-"))  # a socket's path is short
        self.machines: dict[str, Machine] = {}
        self.over = threading.Event()
        self.keeper = threading.Thread(target=self.keep, daemon=True)
        self.key = self.make_key()

    def make_key(self) -> Path:
        key = self.account.plane.folder / "brev.pem"
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        subprocess.run(words, check=True)
        return key

    def __enter__(self) -> Machines:
        self.account.set(user=ME)
        self.keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.keeper.join()
        for machine in self.machines.values():
            machine.end()
        shutil.rmtree(self.folder)

    def keep(self) -> None:
        while not self.over.wait(0.05):
            running = {
                each["id"]: each for each in self.account.instances() if each["status"] == "RUNNING"
            }
            for gone in self.machines.keys() - running.keys():
                self.machines.pop(gone).end()
            for wanted in running.keys() - self.machines.keys():
                self.machines[wanted] = self.boot(running[wanted])

    def boot(self, instance: Record) -> Machine:
        """Its disk outlives a stop. Its address does not."""
        folder = self.folder / instance["id"]
        sshd = MachineSshd(folder, self.account.plane.folder / "brev.pem.pub")
        if not (folder / "data").exists():
            copy_template(folder / "data")
        sshd.prepare()
        self.publish_port(instance["id"], sshd.port)
        machine = Machine(folder)
        has_ssh = instance["fate"].get("ssh") != "never"
        machine.boot(instance["gpu_count"], sshd_program() if has_ssh else "")
        return machine

    def publish_port(self, instance_id: str, port: int) -> None:
        with self.account.plane.changing() as state:
            for instance in state["instances"]:
                if instance["id"] == instance_id:
                    instance["port"] = port

    def machine(self, name: str) -> Machine:
        """The machine of an instance, once it is up."""
        instance = self.account.instance(name)
        assert instance is not None
        machine = until(lambda: self.booted(instance["id"]))
        until(machine.answers)
        return machine

    def booted(self, instance_id: str) -> Machine | None:
        assert self.keeper.is_alive(), "no machine can be had"
        return self.machines.get(instance_id)


class MachineSshd(Sshd):
    """Lets the account's key in, into a home of the machine's."""

    def __init__(self, folder: Path, key: Path) -> None:
        settings = (
            "PermitRootLogin yes",
            f"SetEnv HOME={folder} PATH={folder}/programs:{os.environ['PATH']}",
        )
        super().__init__(folder, settings, aliases=(), port=free_port())
        self.admitted = key

    def admit(self, key: str) -> None:
        shutil.copy(self.admitted, self.folder / "authorized")


def sshd_program() -> str:
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None
    return program


@functools.cache
def template() -> Path:
    """The data folder of a dockerd with the tests' images, made once."""
    folder = CACHE / "brev"
    made = folder / "data"
    with dockerd_here.alone(folder):
        if not made.exists():
            make_template(made)
    return made


def make_template(made: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir=made.parent))
    machine = Machine(folder)
    machine.boot(0, "")
    try:
        until(machine.answers)
        machine.docker("import", str(dockerd_here.busybox_root()), BUSYBOX).check_returncode()
        change = ("--change", "CMD /bin/bash")
        machine.docker(
            "import", *change, str(dockerd_here.debian_root()), PYTHON
        ).check_returncode()
    finally:
        machine.end()
    (folder / "data").rename(made)
    shutil.rmtree(folder)


def copy_template(data: Path) -> None:
    """A data folder of its own in no time: files are linked, but for the databases, which dockerd
    writes to in place.
    """
    data.parent.mkdir(exist_ok=True)
    same_disk = template().stat().st_dev == data.parent.stat().st_dev
    flags = "-al" if same_disk else "-a"
    subprocess.run(["cp", flags, str(template()), str(data)], check=True)
    for database in template().rglob("*.db"):
        own = data / database.relative_to(template())
        own.unlink()
        shutil.copy(database, own)


@contextmanager
def running(account: Account) -> Iterator[Machines]:
    """The account's machines, for tests that are marked `docker`."""
    marks.need("docker")
    if os.geteuid() != 0:
        debian.missing("docker", "dockerd needs root")
    dockerd_here.need("dockerd", "debootstrap", "busybox", "sshd")
    with Machines(account) as machines:
        yield machines
