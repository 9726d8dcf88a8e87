"""The real command in a process of its own, with a home, a store and a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.forked_tao import run_tao

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


def readable(printed: bytes) -> str:
    return printed.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def run_tao_here(
    env: Mapping[str, str], folder: str | Path, *words: str, timeout: float = 300
) -> Ran:
    """`tao` in this folder, with this environment and no other."""
    done = run_tao(words, Path(folder), env, timeout)
    return Ran(done.returncode, readable(done.stdout), readable(done.stderr))


class Tao:
    """`tao` as somebody would type it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "LANG", "PYTHONPATH", "VIRTUAL_ENV")
        }
        self.env = {
            **kept,
            "HOME": str(home),
            "TAO_SDK_STATE_DIR": str(home / "state"),
            "COLUMNS": "100",
        }

    def __call__(self, *args: str, timeout: float = 300, **env: str) -> Ran:
        return run_tao_here({**self.env, **env}, self.home, *args, timeout=timeout)

    def until(self, text: str, *args: str, seconds: float = 300) -> None:
        """Wait until this command prints the text."""
        deadline = time.monotonic() + seconds
        while text not in self(*args).out:
            assert time.monotonic() < deadline, (text, self(*args))

    def bytes(self, *args: str) -> bytes:
        """What it prints, byte for byte."""
        return run_tao(args, self.home, self.env, 300).stdout

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


@dataclass(frozen=True)
class Ended:
    """A store with three jobs that have ended, for tests that only look."""

    tao: Tao
    complete: str
    failed: str
    canceled: str
