"""A real sshd for the tests, on loopback: keys, configuration and pid file of its own, and a
client's configuration with it.

`path()` is the PATH of a caller whose `ssh` reads that configuration instead of ~/.ssh: nobody's
own keys and hosts are touched.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

from support.dockerd import dockerd_here
from support.servers.ports import free_port

HOST = "127.0.0.1"


class Sshd:
    """Lets the key `folder/key` in. What a far shell finds, PATH and DOCKER_HOST, is given to
    `start`.
    """

    def __init__(self, folder: Path) -> None:
        dockerd_here.need("sshd")
        self.folder = folder
        self.port = free_port()
        self.url = f"ssh://root@{HOST}:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        for key in ("key", "other-key", "host-key"):
            self.make_key(key)
        self.write_client()

    def make_key(self, name: str) -> None:
        argv = [
            "ssh-keygen",
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            name,
            "-f",
            str(self.folder / name),
        ]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)

    def write_client(self) -> None:
        """The ssh that a caller finds in his PATH."""
        self.know("host-key")
        (self.folder / "client").write_text(
            f"Host *\n IdentityFile {self.folder}/key\n IdentitiesOnly yes\n IdentityAgent none\n"
            f" UserKnownHostsFile {self.folder}/known_hosts\n GlobalKnownHostsFile /dev/null\n"
        )
        (self.folder / "bin").mkdir()
        program = self.folder / "bin" / "ssh"
        program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.folder}/client "$@"\n')
        program.chmod(0o755)

    def know(self, *keys: str) -> None:
        """These are the host keys that the caller knows."""
        lines = [f"[{HOST}]:{self.port} {(self.folder / f'{key}.pub').read_text()}" for key in keys]
        (self.folder / "known_hosts").write_text("".join(lines))

    def admit(self, key: str) -> None:
        """This is the key that is let in."""
        shutil.copy(self.folder / f"{key}.pub", self.folder / "authorized_keys")

    def start(self, **there: str) -> None:
        Path("/run/sshd").mkdir(mode=0o755, parents=True, exist_ok=True)
        self.admit("key")
        there = {
            "HOME": str(self.folder),
            **there,
        }  # else a shell reads what this machine's root has in his
        config = self.folder / "sshd_config"
        config.write_text(
            f"ListenAddress {HOST}:{self.port}\nHostKey {self.folder}/host-key\nPidFile {self.folder}/sshd.pid\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nPermitRootLogin yes\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 100\n"
            f"SetEnv {' '.join(f'{name}={value}' for name, value in there.items())}\n"
        )
        with (self.folder / "sshd.log").open("ab") as log:
            argv = [shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-e", "-f", str(config)]
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        dockerd_here.until(self.answers, words=(self.folder / "sshd.log").read_text)

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    def stop(self) -> None:
        """The one that listens, and those that serve a connection."""
        if self.process is None:
            return
        for pid in [*children(self.process.pid), self.process.pid]:
            try:
                os.kill(pid, 15)
            except ProcessLookupError:
                continue
        self.process.wait(90)
        self.process = None

    def path(self) -> str:
        return f"{self.folder}/bin:{os.environ['PATH']}"


def children(parent: int) -> list[int]:
    found: list[int] = []
    for process in Path("/proc").iterdir():
        try:
            stat = (process / "stat").read_text() if process.name.isdigit() else ""
        except OSError:
            continue
        if stat and int(stat.rpartition(")")[2].split()[1]) == parent:
            found.append(int(process.name))
    return found
