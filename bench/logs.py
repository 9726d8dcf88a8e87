"""Logs: what it costs to read a long log of an ended job, in time over `cat` of the same bytes and
in memory.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.contenders import ours
from bench.figure import Figure, growth, ratio
from bench.folder import ROOT, scratch
from bench.rivals import Rivals
from bench.rounds import interleaved
from bench.scale import Scale
from tao_sdk.client import Client
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

LINE = (
    b"2026-01-31 12:34:56,789 INFO loader.worker: sample 000123 of shard "
    b"train-00042 decoded and cached\n"
)
NOTHING: Mapping[str, str] = {}
CHUNK = 1024 * 1024
WAYS = {"client": "`Client.follow_logs`", "command": "`tao logs`"}


@dataclass(frozen=True)
class Reading:
    """One reading of a log. `peak` is 0 where the reader does not tell it."""

    seconds: float
    size: int
    peak: int = 0


def figures(scale: Scale, rivals: Rivals) -> Iterator[Figure]:  # noqa: ARG001  the others' logs need a container
    with scratch() as folder:
        log = written_log(folder / "log", scale.log_megabytes)
        with Jobs(folder) as jobs:
            long, short = jobs.printing(log), jobs.printing(Path(os.devnull))
        yield from times(jobs, long, log, scale)
        yield from memories(jobs, long, short, scale)


def times(jobs: Jobs, long: str, log: Path, scale: Scale) -> Iterator[Figure]:
    commands = {
        "client": reader("client", jobs.state_file, long),
        "command": [ours().script("tao"), "--state-file", str(jobs.state_file), "logs", long],
        "cat": ["cat", str(log)],
    }
    found = interleaved(
        {name: whole(command, log) for name, command in commands.items()}, scale.rounds
    )
    seconds = {name: [reading.seconds for reading in readings] for name, readings in found.items()}
    meaning = (
        f"A log of {scale.log_megabytes} MB, from the start of the "
        "program to its last byte in a pipe."
    )
    for way, title in WAYS.items():
        yield ratio(
            f"logs.{way}.time",
            f"{title}, time",
            meaning,
            seconds[way],
            seconds["cat"],
            "`cat` of the file",
        )


def memories(jobs: Jobs, long: str, short: str, scale: Scale) -> Iterator[Figure]:
    meaning = (
        f"The most memory that reading {scale.log_megabytes} MB takes, "
        "more than reading an empty log."
    )
    for way, title in WAYS.items():
        commands = {
            name: reader(way, jobs.state_file, job)
            for name, job in (("long", long), ("short", short))
        }
        found = interleaved(
            {name: read_by(command) for name, command in commands.items()}, min(scale.rounds, 5)
        )
        peaks = {name: [reading.peak for reading in readings] for name, readings in found.items()}
        yield growth(
            f"logs.{way}.memory",
            f"{title}, memory",
            meaning,
            peaks["long"],
            peaks["short"],
            "an empty log, read alike",
        )


def reader(way: str, state_file: Path, job: str) -> list[str]:
    return [ours().python, "-m", "bench.log_reader", way, str(state_file), job]


def read_by(command: Sequence[str], environ: Mapping[str, str] = NOTHING) -> Callable[[], Reading]:
    return lambda: reading_of(command, environ)


def whole(
    command: Sequence[str], log: Path, environ: Mapping[str, str] = NOTHING
) -> Callable[[], Reading]:
    return lambda: whole_reading(command, log, environ)


def whole_reading(command: Sequence[str], log: Path, environ: Mapping[str, str]) -> Reading:
    """As `reading_of`, and what came has to be as long as the log: a reader that loses some is not
    quick.
    """
    size = log.stat().st_size
    reading = reading_of(command, environ)
    if reading.size != size:
        raise RuntimeError(f"{command[0]} gave {reading.size} of {size} bytes.")
    return reading


def reading_of(command: Sequence[str], environ: Mapping[str, str]) -> Reading:
    """Run it with these variables more, read its output from a pipe, and throw that away."""
    started, size = time.perf_counter(), 0
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=ours().variables(**environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        while data := os.read(program.stdout.fileno(), CHUNK):
            size += len(data)
        seconds = time.perf_counter() - started
        said = program.stderr.read().decode()
    peak = said.split()[-1:]  # a command may say more before it
    if program.returncode:
        raise subprocess.CalledProcessError(program.returncode, command, stderr=said)
    return Reading(seconds, size, int(peak[0]) if peak and peak[0].isdigit() else 0)


def written_log(path: Path, megabytes: int) -> Path:
    with path.open("wb") as file:
        for _ in range(megabytes):
            file.write(LINE * (1_000_000 // len(LINE)))
    return path


class Jobs:
    """Real jobs of the local platform, in a store and a folder that only the bench uses."""

    def __init__(self, folder: Path) -> None:
        self.state_file = folder / "state" / "jobs.db"
        settings = Settings({**ours().variables(), "TAO_RESULTS_ROOT": str(folder / "runs")})
        self.client = Client(self.state_file, settings=settings)

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def printing(self, file: Path) -> str:
        """The id of an ended job whose log is that file."""
        spec = JobSpec(name="bench", command=f"cat {file}", gpu_count=0)
        job = self.client.submit(spec, "local").job.id
        status = self.client.wait(job)
        if status.status is not Status.COMPLETE:
            raise RuntimeError(f"{job} ended in {status.status}: {status.message}")
        return job
