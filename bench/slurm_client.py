"""A client of a cluster that does what it is told, line by line, and says how long each took: ours,
or the published one.

Run as: slurm_client.py ours|published IMAGE, with the contender's Python. Reads a word per line
(and a value), writes JSON. It imports nothing of the bench: it runs in the environment of either.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

COMMAND = "true"


class Published:
    """nvidia-tao-sdk 7.2.0, called as its documents do."""

    def __init__(self, image: str) -> None:
        from tao_sdk.platforms.slurm import SlurmSDK

        self.sdk, self.image = SlurmSDK(), image
        self.last = ""

    def submit(self, _: str) -> Any:
        self.last = self.sdk.create_job(image=self.image, command=COMMAND, gpu_count=1).id

    def submits(self, count: str) -> Any:
        for _ in range(int(count)):
            self.submit("")

    def status(self, _: str) -> Any:
        return str(self.sdk.get_job_status(self.last).status)

    def logs(self, _: str) -> Any:
        return len(self.sdk.get_job_logs(self.last))

    def cancel(self, _: str) -> Any:
        return self.sdk.cancel_job(self.last)


class Ours:
    """This package, without the watcher that an SDK has: its own looks would be counted, too."""

    def __init__(self, image: str) -> None:
        from tao_sdk.client import Client

        self.client, self.image = Client(), image
        self.last = ""

    def plain(self, _: str) -> Any:
        """The least that anything can take."""
        return self.client.engine.backend("slurm").ssh.run("true").rc

    def sbatch(self, _: str) -> Any:
        """The least that handing a job over can take."""
        script = "cd /tmp && sbatch --parsable --gpus-per-node=1 -p polar -o /dev/null --wrap true"
        return self.client.engine.backend("slurm").ssh.run(script).rc

    def submit(self, _: str) -> Any:
        from tao_sdk.model.spec import JobSpec

        self.last = self.client.submit(
            JobSpec(image=self.image, command=COMMAND, gpu_count=1), "slurm"
        ).job.id

    def submits(self, count: str) -> Any:
        for _ in range(int(count)):
            self.submit("")

    def status(self, _: str) -> Any:
        return str(self.client.get_job_status(self.last).status)

    def logs(self, _: str) -> Any:
        return len(self.client.get_job_logs(self.last))

    def cancel(self, _: str) -> Any:
        return self.client.cancel_job(self.last)

    def know(self, path: str) -> Any:
        """The jobs whose SLURM ids stand in a file, as if they had been submitted from here."""
        from tao_sdk.model.job import AttemptRow, Job
        from tao_sdk.model.plan import Attempt, Ref

        store = self.client.store
        like = store.attempt(self.last)
        for number, slurm_id in enumerate(Path(path).read_text().split(), 1):
            attempt = Attempt(
                f"many-{number:010}", 1, "slurm", like.attempt.endpoint, store.store_id
            )
            store.add(Job(attempt.job_id, "many", "slurm"), AttemptRow(attempt, like.plan))
            unique = f"{slurm_id} {attempt.job_id}.1"
            store.confirm(
                Ref("slurm", like.ref.endpoint, like.ref.namespace, slurm_id, unique, attempt)
            )

    def many(self, _: str) -> Any:
        """How all of them are."""
        return len([job for job in self.client.list_jobs() if not job.status.terminal])


def main() -> None:
    kind, image = sys.argv[1:]
    client = {"ours": Ours, "published": Published}[kind](image)
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        began = time.perf_counter()
        try:
            answer = getattr(client, word)(number)
        except Exception as error:  # noqa: BLE001  what a contender raises is its answer
            answer = f"{type(error).__name__}: {error}"[:200]
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "answer": answer}), flush=True)


if __name__ == "__main__":
    main()
