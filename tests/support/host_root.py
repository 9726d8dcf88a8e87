"""The root of a Debian that stands for a host: what is run in it cannot touch this machine's files,
and everything that it starts ends with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from support.debian_packages import write_program
from support.dockerd import dockerd_here
from support.pages import ROOT
from support.servers import debian
from support.tao_command import Ran
from tao_sdk.model.gpu_host import SCRIPT
from tao_sdk.model.settings import Settings
from tao_sdk.skills.installing import install_bank

USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FAKES = "/fakes"  # a folder of programs that come before the root's own
BANK = "/bank"  # the packaged bank, as `tao skills install` writes it
RECORD = "/calls"  # what the fakes were called with
RECORDING = f'#!/bin/sh\necho "$(basename "$0") $*" >>{RECORD}\n'


class HostRoot:
    """A Debian below `folder`, with the set-up script at /setup.sh."""

    def __init__(self, folder: Path) -> None:
        if os.geteuid() != 0:
            debian.missing("host set-up", "chroot needs root")
        debian.need("host set-up", {"debootstrap": "debootstrap", "unshare": "util-linux"})
        self.folder = folder
        folder.mkdir(parents=True)
        skipped = [
            "--exclude=./usr/lib/python3/dist-packages/numpy*",
            "--exclude=./usr/lib/x86_64-linux-gnu/*blas*",
        ]
        words = ["tar", "-C", str(folder), *skipped, "-xf", str(dockerd_here.debian_root())]
        subprocess.run(words, check=True)
        folder.chmod(0o755)
        for name in ("var/cache/apt/archives/partial", "var/lib/apt/lists/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(SCRIPT, folder / "setup.sh")
        (folder / "etc/hosts").write_text("127.0.0.1 localhost\n")

    def path(self, inside: str) -> Path:
        return self.folder / inside.lstrip("/")

    def read(self, inside: str) -> str:
        path = self.path(inside)
        return path.read_text() if path.exists() else ""

    def fake(self, name: str, text: str = "") -> None:
        """A program that records how it was called, then does this."""
        write_program(self.path(f"{FAKES}/{name}"), RECORDING + text)

    def system(self, **keys: str) -> None:
        """Make it another system, by its /etc/os-release."""
        self.release("".join(f'{key}="{value}"\n' for key, value in keys.items()))

    def release(self, text: str) -> None:
        self.path("/etc/os-release").unlink(missing_ok=True)  # it is a link to Debian's own
        self.path("/etc/os-release").write_text(text)

    def setup(self, *words: str, stdin: str = "", user: str = "", **env: str) -> Ran:
        """The set-up script with these words."""
        return self.run("bash", "/setup.sh", *words, stdin=stdin, user=user, **env)

    def install_bank(self) -> None:
        install_bank(self.path(BANK), Settings({"HOME": "/nowhere"}))

    def document(self, name: str, **env: str) -> Ran:
        """A snippet of the documents as it stands, in the folder of the bank."""
        text = (ROOT / "tests" / "documents" / name).read_text()
        return self.run("bash", "-uc", f"cd {BANK}\n{text}", **env)

    def run(self, *words: str, stdin: str = "", user: str = "", **env: str) -> Ran:
        """A program in the root, in namespaces of its own."""
        done = subprocess.run(
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc"),
                *("chroot", *([f"--userspec={user}"] if user else []), str(self.folder)),
                *("sh", "-c", '"$@"; exit $?', "sh", *words),  # the first process cannot be killed
            ],
            input=stdin,
            env={"PATH": f"{FAKES}:{USUAL_PATH}", "HOME": "/root", **env},
            capture_output=True,
            text=True,
            timeout=300,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def snapshot(self) -> Mapping[str, tuple[int, int]]:
        """Each file of the root: its size, and when it was changed."""
        found = {}
        for path in self.folder.rglob("*"):
            if not path.is_symlink() and path.is_file():
                seen = path.stat()
                found[str(path)] = (seen.st_size, seen.st_mtime_ns)
        return found
