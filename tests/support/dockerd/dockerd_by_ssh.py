"""A host with Docker behind the tests' sshd, and a caller who reaches it.

`path()` is the PATH of a caller whose `ssh` reads a configuration of the tests instead of ~/.ssh:
nobody's own keys and hosts are touched.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from support.dockerd import dockerd_here
from support.servers.sshd_here import HOST, Sshd


class DockerHost(Sshd):
    """Lets root in. What a far shell finds, PATH and DOCKER_HOST, is given to `start`."""

    def __init__(self, folder: Path) -> None:
        dockerd_here.need("sshd")
        super().__init__(folder, aliases=(), client=("IdentitiesOnly yes", "IdentityAgent none"))
        self.url = f"ssh://root@{HOST}:{self.port}"
        self.prepare()
        self.make_key("other-key")
        self.write_program()

    def known_names(self) -> list[str]:
        return [f"[{HOST}]:{self.port}"]

    def write_program(self) -> None:
        """The ssh that a caller finds in his PATH."""
        program = self.folder / "bin" / "ssh"
        program.parent.mkdir()
        real = shutil.which("ssh")
        program.write_text(f'#!/bin/sh\nexec {real} -F {self.folder}/ssh_config "$@"\n')
        program.chmod(0o755)

    def start(self, **there: str) -> None:
        self.admit("user")
        # Without a home of its own a far shell reads what this machine's root has in his.
        variables = {"HOME": str(self.folder), **there}
        words = " ".join(f"{name}={value}" for name, value in variables.items())
        self.settings = ("PermitRootLogin yes", f"SetEnv {words}")
        self.write_config()
        super().start()

    def path(self) -> str:
        return f"{self.folder}/bin:{os.environ['PATH']}"
