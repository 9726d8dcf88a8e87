"""Crashes: lets a client of a place submit or retry a job, and die on the way (crash.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support import TESTS
from support.places import Place


@dataclass(frozen=True)
class Crash:
    """How a client ended: `code` is -9 where it died, `steps` are its lines where it did not."""

    code: int
    steps: int


class Crasher:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def submit(self, marker: Path, at: int) -> Crash:
        """A job that appends a line to `marker`; the client dies at its line `at`, if not 0."""
        return self.ask("submit", str(marker), at)

    def retry(self, job: str, at: int) -> Crash:
        return self.ask("retry", job, at)

    def ask(self, verb: str, of: str, at: int) -> Crash:
        assert self.process.stdin and self.process.stdout
        request = json.dumps({"verb": verb, "of": of, "at": at})
        print(request, file=self.process.stdin, flush=True)
        return Crash(**json.loads(self.process.stdout.readline()))


@contextmanager
def crasher(place: Place) -> Generator[Crasher]:
    """One process for all: each client is a fork of it, which has nothing to import."""
    argv = [sys.executable, "-m", "support.crash", place.platform, str(place.state)]
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=environ, stdin=pipe, stdout=pipe, text=True) as process:
        yield Crasher(process)
