"""Real jobs: an entrypoint is built, run by a real shell under a real interpreter, and what came
out is divided.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support import marks
from support.waiting import until
from tao_sdk.runner.events import Event, EventFilter
from tao_sdk.script_runner import build_entrypoint

BASH = ("/bin/bash", "-c")


def pytest_itemcollected(item: pytest.Item) -> None:
    """A real job has a shell, a runner and a command."""
    marks.mark_by_fixtures(item, "slow", {"jobs"})
    marks.mark_by_fixtures(item, "network", {"minio", "link"})


@dataclass(frozen=True)
class Ran:
    """What a job did."""

    code: int
    out: bytes
    err: bytes  # the command's, without our events
    raw: bytes  # stderr as it was
    events: list[Event]
    results: Path

    def named(self, name: str) -> list[Event]:
        return [event for event in self.events if event.name == name]

    @property
    def stages(self) -> list[str]:
        return [event.facts["stage"] for event in self.named("stage")]

    @property
    def failure(self) -> dict[str, Any]:
        failed = self.named("failed")
        assert len(failed) == 1, (self.code, self.raw)
        return failed[0].facts

    @property
    def warnings(self) -> list[str]:
        return [event.facts["code"] for event in self.named("warning")]

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.results / ".tao" / "manifest.json").read_text())

    @property
    def files(self) -> dict[str, dict[str, Any]]:
        return {each["path"]: each for each in self.manifest["files"]}


def divided(code: int, out: bytes, raw: bytes, results: Path) -> Ran:
    divider = EventFilter()
    err, events = divider.feed(raw)
    return Ran(code, out, err + divider.close(), raw, events, results)


class Jobs:
    """Runs jobs of one test; they share a results root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "results"
        self.env = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "TAO_JOB_ID": "job-1",
            "TAO_RESULTS_ROOT": str(self.root),
            "TMPDIR": str(folder),
        }

    @property
    def results(self) -> Path:
        return self.root / "job-1"

    def run(
        self,
        command: str,
        *,
        env: dict[str, str] | None = None,
        stdin: bytes = b"",
        timeout: float = 60.0,
        **arguments: Any,
    ) -> Ran:
        """Build and run; `env` adds to the job's, and an empty value takes away."""
        text = build_entrypoint(command=command, **arguments)["command"]
        return self.run_text(text, env=env, stdin=stdin, timeout=timeout)

    def manifest_folders(self) -> dict[str, list[int]]:
        """The checkpoints of the last run that are folders: how many files and bytes."""
        return json.loads((self.results / ".tao" / "manifest.json").read_text())["folders"]

    def run_text(
        self,
        text: str,
        *,
        shell: tuple[str, ...] = BASH,
        env: dict[str, str] | None = None,
        stdin: bytes = b"",
        timeout: float = 60.0,
    ) -> Ran:
        done = subprocess.run(
            [*shell, text],
            input=stdin,
            env=self.environment(env),
            cwd=self.folder,
            capture_output=True,
            check=False,
            timeout=timeout,
        )
        return divided(done.returncode, done.stdout, done.stderr, self.results)

    def start(
        self, command: str, *, env: dict[str, str] | None = None, **arguments: Any
    ) -> Started:
        text = build_entrypoint(command=command, **arguments)["command"]
        return Started(
            subprocess.Popen(
                [*BASH, text],
                env=self.environment(env),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ),
            self.results,
        )

    def environment(self, more: dict[str, str] | None) -> dict[str, str]:
        return {name: value for name, value in {**self.env, **(more or {})}.items() if value}


class Started:
    """A job that is running."""

    def __init__(self, process: subprocess.Popen[bytes], results: Path) -> None:
        self.process, self.results = process, results
        self.seen = b""

    def until(self, text: bytes) -> None:
        """Wait until the command has printed this on stdout."""
        assert self.process.stdout
        while text not in self.seen:
            data = os.read(self.process.stdout.fileno(), 4096)
            assert data, (self.seen, self.process.communicate()[1])
            self.seen += data

    def ended(self) -> Ran:
        out, err = self.process.communicate(timeout=300)
        return divided(self.process.returncode, self.seen + out, err, self.results)


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return Jobs(tmp_path)


@pytest.fixture
def eventually() -> Callable[[Callable[[], Any]], Any]:
    """Wait until something is so."""
    return until
