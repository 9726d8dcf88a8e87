"""The real clients of the hub and of NGC, in an environment of their own: they want other versions
than ours of much.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from support import marks

WANTED = Path(__file__).with_name("clients.txt")
CACHE = Path(__file__).parents[3] / ".cache"


@dataclass(frozen=True)
class Clients:
    python: Path

    def run(self, code: str, home: Path, **env: str) -> str:
        """Run some Python with the clients at hand; what it printed."""
        here = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HF_", "NGC_"))
        }
        env = {**here, "HOME": str(home), **env}
        done = subprocess.run(
            [self.python, "-c", code], env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


def clients() -> Clients:
    """Installed once for each version of the list, however many test sessions want
    them at a time.
    """
    marks.need("network")
    return installed()


@functools.cache
def installed() -> Clients:
    mark = hashlib.sha256(WANTED.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = CACHE / f"clients-{mark}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "clients.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            words = "install -q --disable-pip-version-check --root-user-action ignore -r"
            subprocess.run(
                [folder / "bin" / "python", "-m", "pip", *words.split(), WANTED], check=True
            )
            (folder / "complete").touch()
    return Clients(folder / "bin" / "python")
