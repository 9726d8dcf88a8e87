"""A sweep in the store: ended jobs with labels, specs and metrics, without the time that running
them takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.log_reading import LogReading
from tao_sdk.model.plan import Attempt
from tao_sdk.model.progress_reader import ProgressReader
from tao_sdk.model.status import Status
from tao_sdk.store import Store


def reading(*accuracies: float) -> LogReading:
    """What is kept of a training that told these accuracies, an epoch each."""
    reader = ProgressReader()
    for epoch, accuracy in enumerate(accuracies, 1):
        line = (
            f"epoch {epoch}/{len(accuracies)} loss {2 - accuracy:.4f} accuracy "
            f"{accuracy:.4f} precision 0.3\n"
        )
        reader.feed(line.encode())
    return LogReading(reader.progress, whole=False)


def add(home: Path, job_id: str, accuracies: tuple[float, ...] = (), **fields: Any) -> None:
    """An ended job in the store of the command that lives in `home`."""
    with Store.open(home / "state" / "jobs.db") as store:
        given = {
            "name": job_id.rpartition("-")[0],
            "platform": "local",
            "status": Status.COMPLETE,
            **fields,
        }
        job = Job(id=job_id, reading=reading(*accuracies) if accuracies else LogReading(), **given)
        store.add(
            job, AttemptRow(Attempt(job_id, 1, "local", "here", store.store_id), {"request": {}})
        )
