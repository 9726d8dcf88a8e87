"""The real command in a process of its own, with a home, a store and a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TRAINING = "for i in 1 2 3; do echo epoch $i/3 loss 0.$((9 - i)) accuracy 0.$((6 + i)); done"
COMMAND = [sys.executable, "-m", "tao_sdk.cli.main"]


@dataclass(frozen=True)
class Ran:
    """How the command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> dict[str, str]:
        return json.loads(self.err)["error"]


class Tao:
    """`tao` as somebody would type it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {
            name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "PYTHONPATH", "VIRTUAL_ENV")
        }
        self.env = {**kept, "HOME": str(home), "TAO_SDK_STATE_DIR": str(home / "state"), "COLUMNS": "100"}

    def __call__(self, *args: str, timeout: float = 60, **env: str) -> Ran:
        done = subprocess.run(
            [*COMMAND, *args],
            cwd=self.home,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def bytes(self, *args: str) -> bytes:
        """What it prints, byte for byte."""
        return subprocess.run([*COMMAND, *args], cwd=self.home, env=self.env, stdout=subprocess.PIPE, timeout=60).stdout

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *args],
            cwd=self.home,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run_detached(self, command: str, *flags: str) -> str:
        """The id of a job that runs `command`."""
        ran = self("run", "--json", "--detach", "--gpus", "0", *flags, "--", command)
        assert ran.code == 0, ran.err
        return ran.json["id"]


@pytest.fixture
def tao(tmp_path: Path) -> Iterator[Tao]:
    command = Tao(tmp_path)
    yield command
    if not (tmp_path / "state").exists():
        return
    live = json.loads(command("ls", "--json").out or "[]")
    for job in live:
        if job["status"] in ("Pending", "Running"):
            command("cancel", job["id"], "--grace", "0.1s")


@dataclass(frozen=True)
class Ended:
    """A store with three jobs that have ended, for tests that only look."""

    tao: Tao
    complete: str
    failed: str
    canceled: str


@pytest.fixture(scope="session")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    tao = Tao(tmp_path_factory.mktemp("ended"))
    keep = 'mkdir -p "$TAO_RESULTS_DIR/train"; for i in 1 2 3; do echo $i > "$TAO_RESULTS_DIR/train/model_epoch_00$i.pth"; done'
    complete = tao.run_detached(f"{keep}; {TRAINING}", "--name", "good", "--label", "team=vision")
    failed = tao.run_detached("echo before; echo 'CUDA out of memory' >&2; exit 3", "--name", "bad")
    canceled = tao.run_detached("sleep 60", "--name", "stopped")
    assert tao("wait", complete).code == 0
    assert tao("wait", failed).code == 1
    assert tao("cancel", canceled, "--grace", "1s").code == 0
    return Ended(tao, complete, failed, canceled)
