"""Many starts: what it takes until each of many commands has done its first instruction."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, ratio
from bench.rounds import PATIENCE_SECONDS, ContenderFailed, interleaved
from bench.scale import Scale
from tao_sdk.client import Client
from tao_sdk.model.spec import JobSpec
from tao_sdk.transports import process

LOOK_SECONDS = 0.005  # between looks for the marks


def figures(client: Client, scale: Scale, folder: Path) -> Iterator[Figure]:
    """One submit after the other, as a sweep does it."""
    starts = Starts(client, scale.many_jobs, folder)
    found = interleaved(
        {"ours": starts.by_submit, "bare": starts.by_popen}, max(2, scale.rounds // 5)
    )
    meaning = (
        "From the first submit until each of the commands has done its first instruction. Ours "
        "are stored, supervised and found again."
    )
    yield ratio(
        "many.submit",
        f"submit {scale.many_jobs} jobs, each",
        meaning,
        found["ours"],
        found["bare"],
        "subprocess.Popen(start_new_session=True) of the same packed command",
    )


class Starts:
    """Starts the same packed command many times over. Each leaves a mark of its own."""

    def __init__(self, client: Client, number: int, folder: Path) -> None:
        self.client, self.number = client, number
        self.marks, self.results = folder / "marks", folder / "bare"
        self.job = JobSpec(
            command=f'mkdir "{self.marks}/$$"; exec sleep 3600',
            gpu_count=0,
            specs={"results_dir": ""},
            outputs={"results_dir": {"type": "folder"}},
        )

    def by_submit(self) -> float:
        """Seconds for each."""
        self.clear_marks()
        began = time.perf_counter()
        ids = [self.client.submit(self.job, "local").job.id for _ in range(self.number)]
        seconds = self.wait_for_marks() - began
        self.client.cancel_jobs(ids, grace=0)
        return seconds / self.number

    def by_popen(self) -> float:
        """Seconds for each, of what nobody supervises, stores or finds again."""
        self.clear_marks()
        command = self.client.plan(self.job, "local").job.command
        started: list[subprocess.Popen[bytes]] = []
        began = time.perf_counter()
        try:
            started += [self.start_bare(command, number) for number in range(self.number)]
            seconds = self.wait_for_marks() - began
        finally:
            end_all(started)
        return seconds / self.number

    def start_bare(self, command: str, number: int) -> subprocess.Popen[bytes]:
        environment = {"TAO_RESULTS_ROOT": str(self.results), "TAO_JOB_ID": f"bare-{number}"}
        return subprocess.Popen(
            ["/bin/sh", "-c", command],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def clear_marks(self) -> None:
        self.marks.mkdir(exist_ok=True)
        for mark in self.marks.iterdir():
            mark.rmdir()

    def wait_for_marks(self) -> float:
        """When the last one stood. Raises ContenderFailed if that takes too long."""
        give_up_at = time.perf_counter() + PATIENCE_SECONDS
        while len(os.listdir(self.marks)) < self.number:  # noqa: PTH208  the names alone
            if time.perf_counter() > give_up_at:
                raise ContenderFailed(f"not all had begun after {PATIENCE_SECONDS} s")
            time.sleep(LOOK_SECONDS)
        return time.perf_counter()


def end_all(started: list[subprocess.Popen[bytes]]) -> None:
    """The runner has put the command into a group of its own."""
    for one in started:
        if leader := process.identify(one.pid):
            process.kill(leader)
        one.wait()
