"""A folder like a fresh clone's, in which the blocks of a page are run one after the other.

Here: its surroundings, and what a block printed against what the page shows. Not here: which pages
and blocks there are (pages.py).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support import forked_tao
from support.pages import ROOT, SHELL, Block
from tao_sdk import Client
from tao_sdk.model.settings import Settings

BLOCK_SECONDS = 60
SHELL_TAO = ROOT / "tests" / "support" / "tao_of_shell.py"
SECRETS = re.compile(r"KEY|TOKEN|SECRET|PASSWORD")


@dataclass(frozen=True)
class Clone:
    """Where a page is tried out: the examples of a clone, a home and a state
    directory of its own.
    """

    folder: Path
    environ: dict[str, str]

    def run(self, block: Block) -> subprocess.CompletedProcess[str]:
        python = str(Path(self.environ["VIRTUAL_ENV"]) / "bin" / "python")
        server = forked_tao.server(forked_tao.settings_at_start(self.environ))
        write_tao(self.folder.parent / "bin" / "tao", server.fileno())
        command = ["bash", "-euo", "pipefail", "-c"] if block.language in SHELL else [python, "-c"]
        return subprocess.run(
            [*command, block.text],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BLOCK_SECONDS,
            pass_fds=[server.fileno()],
        )

    def client(self) -> Client:
        return Client(settings=Settings(self.environ))


@contextmanager
def fresh_clone(tmp_path: Path) -> Iterator[Clone]:
    """A clone below the folder; its jobs end with it."""
    folder, home = tmp_path / "clone", tmp_path / "home"
    shutil.copytree(ROOT / "examples", folder / "examples")
    do_not_dawdle(folder / "examples" / "digits" / "spec.yaml")
    home.mkdir()
    venv = Path(sys.prefix)
    kept = {name: value for name, value in os.environ.items() if not SECRETS.search(name)}
    kept = {
        name: value
        for name, value in kept.items()
        if not name.startswith(("TAO_", "XDG_", "PYTEST_", "S3_"))
    }
    clone = Clone(
        folder,
        {
            **kept,
            "HOME": str(home),
            "PATH": f"{tmp_path}/bin:{venv}/bin:{os.environ['PATH']}",
            "VIRTUAL_ENV": str(venv),
            "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
            "COLUMNS": "100",
        },
    )
    yield clone
    with clone.client() as client:
        for job in client.list_jobs():
            client.cancel_job(job.id, grace=1)
            client.remove(job.id)


def write_tao(path: Path, descriptor: int) -> None:
    """The command for the shell of a block, without the time that the start of each takes."""
    path.parent.mkdir(exist_ok=True)
    words = shlex.join([sys.executable, "-IS", str(SHELL_TAO), str(descriptor)])
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    path.chmod(0o755)


def do_not_dawdle(spec: Path) -> None:
    """An epoch of the example takes longer than it must, so that people can watch it learn; here
    nobody does.
    """
    text = spec.read_text(encoding="utf-8")
    spec.write_text(
        re.sub(r"seconds_per_epoch: [\d.]+", "seconds_per_epoch: 0", text), encoding="utf-8"
    )


def assert_printed(shown: str, printed: str, where: str) -> None:
    """Every line that the page shows was printed, in this order; numbers, times and ids may be
    others.
    """
    lines = iter([masked(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        if line.strip() in ("", "..."):
            continue
        assert masked(line) in lines, (
            f"{where} shows a line that is not printed here:\n{line}\n---\n{printed}"
        )


def masked(line: str) -> str:
    line = re.sub(r"(?<=-)[a-z0-9]{10}\b", "ID", line)
    return " ".join(re.sub(r"\d+", "N", line).split())
