"""Entrypoint: how large the shell command of a job is, and how long it keeps the user's own command
waiting.

Ours and the published package's get the same call: a job of local files, with a spec, a mounted
input and a results folder.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench.contenders import PUBLISHED, Environment, ours
from bench.figure import Figure, ratio, size, size_ratio
from bench.folder import scratch
from bench.rivals import Rivals
from bench.rounds import ContenderFailed, command_seconds, interleaved
from bench.scale import Scale

TITLE = "entrypoint to first instruction"
BARE = ("python3", "-c", "pass")
# where the published entrypoint unpacks itself, whoever else does so at the time
RUNNER = "/tmp/_tao_runner.py"
BUILD = """
import json, sys
from tao_sdk.script_runner import build_entrypoint
sys.stdout.write(build_entrypoint(**json.load(sys.stdin))["command"])
"""
TRAINING = {
    "command": "python3 train.py -e {config_path}",
    "specs": {
        "dataset": {"dir": "/usr/share", "classes": 10},  # a folder that every machine has
        "train": {"num_epochs": 20, "optim": {"lr": 0.001}},
        "results_dir": "",
    },
    "inputs": {"dataset.dir": {"type": "folder"}},
    "outputs": {"results_dir": {"type": "folder"}},
    "config_format": "yaml",
}
PATIENCE_SECONDS = 60


def figures(scale: Scale, rivals: Rivals) -> Iterator[Figure]:
    published = rivals.environment(PUBLISHED)
    yield from sizes(published)
    with scratch() as folder:
        first = FirstInstruction(folder)
        contenders = {"ours": first.of(ours()), "our python": bare(ours())}
        if published:
            contenders |= {"theirs": first.of(published), "their python": bare(published)}
        leave_out = rivals.leave_out_of(TITLE, needed=("ours", "our python"))
        yield from waits(interleaved(contenders, scale.rounds, leave_out))


def sizes(published: Environment | None) -> Iterator[Figure]:
    meaning = (
        "The command of a job of local files: with one input, one output and a spec of five values."
    )
    mine = len(built(ours(), TRAINING).encode())
    yield size("entrypoint.bytes", "entrypoint, bytes", meaning, mine)
    if published:
        theirs = len(built(published, TRAINING).encode())
        title = f"entrypoint, bytes over those of {PUBLISHED.title}"
        yield size_ratio(
            "entrypoint.bytes.published", title, meaning, mine, theirs, "its entrypoint"
        )


def waits(found: dict[str, list[float]]) -> Iterator[Figure]:
    meaning = "From the start of the entrypoint to the first thing that the user's command does."
    against = "`python3 -c pass`"
    yield ratio(
        "entrypoint.first_instruction", TITLE, meaning, found["ours"], found["our python"], against
    )
    if {"theirs", "their python"} <= set(found):
        key = "entrypoint.first_instruction.published"
        title = f"{TITLE}, {PUBLISHED.title}"
        meaning = (
            "The same of its entrypoint; all that this installs at its start was there already."
        )
        yield ratio(key, title, meaning, found["theirs"], found["their python"], against)


def built(environment: Environment, call: Mapping[str, object]) -> str:
    """The entrypoint that the package of that environment makes."""
    command = [environment.python, "-c", BUILD]
    answer = subprocess.run(
        command,
        input=json.dumps(call),
        env=environment.variables(),
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout


def bare(environment: Environment) -> Callable[[], float]:
    return lambda: command_seconds(BARE, environment.variables())


class FirstInstruction:
    """A named pipe that the user's command writes to before all else, so that one clock sees start
    and arrival.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fifo = folder / "first"
        os.mkfifo(self.fifo)

    def of(self, environment: Environment) -> Callable[[], float]:
        call = {**TRAINING, "command": f"echo > {self.fifo}; cat {{config_path}}"}
        entrypoint = built(environment, call).replace(RUNNER, str(self.folder / "runner.py"))
        return lambda: self.seconds(environment, entrypoint)

    def seconds(
        self, environment: Environment, entrypoint: str, more: Mapping[str, str] | None = None
    ) -> float:
        """`more` adds to the job's environment. Raises ContenderFailed when the command never
        begins.
        """
        own = {"TAO_RESULTS_ROOT": str(self.folder / "results"), "TAO_JOB_ID": "bench"}
        variables = environment.variables(**own) | dict(more or {})
        reader = os.open(self.fifo, os.O_RDONLY | os.O_NONBLOCK)
        started = time.perf_counter()
        job = subprocess.Popen(
            ["bash", "-c", entrypoint],
            env=variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            arrived, _, _ = select.select([reader], [], [], PATIENCE_SECONDS)
            taken = time.perf_counter() - started
        finally:
            os.close(reader)
            check_end(job)
        if not arrived:
            raise ContenderFailed("its entrypoint did not start its command")
        return taken


def check_end(job: subprocess.Popen[bytes]) -> None:
    try:
        code = job.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        job.kill()
        raise ContenderFailed(f"its entrypoint ran for {PATIENCE_SECONDS} s") from None
    if code:
        raise ContenderFailed(f"its entrypoint ended with {code}")
