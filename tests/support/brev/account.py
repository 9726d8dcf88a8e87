"""An account of the stand-in `brev`, as a test sees it: what it does next, what was called, what is
rented.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.brev.control_plane import ControlPlane, Record, named, new_account

LIST_RELEASE, OBJECT_RELEASE = "0.6.322", "0.6.334"
TESTS = Path(__file__).parents[2]
TOKEN = "session:device"


@dataclass(frozen=True)
class Account:
    """Its state is below `folder`, which also has the command in bin/ and a caller's home."""

    folder: Path

    @classmethod
    def open(cls, folder: Path, release: str = OBJECT_RELEASE) -> Account:
        """A new account, whose caller has logged in."""
        account = cls(folder)
        for path in (account.plane.folder, account.home / ".brev", folder / "bin"):
            path.mkdir(parents=True)
        account.plane.write_state(new_account(release))
        account.write_program()
        account.save_login({"access_token": "access", "refresh_token": TOKEN})
        return account

    @property
    def plane(self) -> ControlPlane:
        return ControlPlane(self.folder / "account")

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def write_program(self) -> None:
        program = self.folder / "bin" / "brev"
        words = f"{sys.executable} -S -m support.brev.program {self.plane.folder}"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={TESTS} exec {words} "$@"\n')
        program.chmod(0o755)

    def save_login(self, login: Mapping[str, str]) -> None:
        credentials = self.home / ".brev" / "credentials.json"
        credentials.write_text(json.dumps(login))
        credentials.chmod(0o600)

    def log_out(self) -> None:
        (self.home / ".brev" / "credentials.json").unlink()

    def environ(self, **own: str) -> dict[str, str]:
        """The environment of a caller who has `brev` in his PATH."""
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "HOME": str(self.home), **own}

    def brev(
        self, *words: str, stdin: str | None = None, **own: str
    ) -> subprocess.CompletedProcess[str]:
        """Call the command. Without `stdin` its standard input is /dev/null."""
        return subprocess.run(
            [self.folder / "bin" / "brev", *words],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            env=self.environ(**own),
        )

    def set(self, **settings: Any) -> None:
        """Change what the account has and does: `new_account` lists it."""
        with self.plane.changing() as state:
            state.update(settings)

    def take_time(self, **seconds: float) -> None:
        """An instance stays in these states for so long from now on."""
        with self.plane.changing() as state:
            state["times"].update(seconds)

    def fate(self, **fate: Any) -> None:
        """What becomes of the next create: refused=WORDS, lost=True, killed=True, end=STATUS,
        build=STATUS, health="UNHEALTHY", ssh="never".
        """
        with self.plane.changing() as state:
            state["fates"].append(fate)

    def fail_next(self, command: str, *faults: str) -> None:
        """What goes wrong with the next calls of a command: "unauthorized", "hang", "" for
        nothing, else an HTTP status.
        """
        with self.plane.changing() as state:
            state["faults"].setdefault(command, []).extend(faults)

    def instances(self) -> list[Record]:
        return self.plane.read_state()["instances"]

    def instance(self, name: str) -> Record | None:
        return named(self.plane.read_state(), name)

    def calls(self) -> Sequence[Record]:
        """Every call so far: words, stdin, telemetry, at."""
        path = self.plane.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
