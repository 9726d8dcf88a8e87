"""Kept logs: the copies of an attempt's log that are read when its backend has lost it. Our copy
comes first, then the one among the results.

The runner keeps a log beside the results (.tao/job.log, runner/results_folder.py). The job could
write there, so no link is followed out of the results.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tao_sdk.engine.bucket_files import files_of, in_bucket
from tao_sdk.engine.engine import Engine
from tao_sdk.model.errors import PathNotFound, TaoError
from tao_sdk.model.job import AttemptRow, Job


@dataclass(frozen=True)
class KeptLog:
    """A copy of a log. `read(offset, limit)` returns at least one byte until the end.
    `is_bytewise`: offsets are those of the backend's log.
    """

    size: Callable[[], int]
    read: Callable[[int, int], bytes]
    is_bytewise: bool


def kept_log(engine: Engine, row: AttemptRow, rank: int) -> KeptLog | None:
    """Return the copy of a rank's log; None if there is none."""
    copies = engine.store.log_copies
    if copies.size(row.attempt, rank):
        return KeptLog(
            lambda: copies.size(row.attempt, rank),
            lambda offset, limit: copies.read(row.attempt, offset, limit, rank),
            is_bytewise=True,
        )
    with suppress(TaoError):  # if the results cannot be looked at, no copy is known
        return _among_results(
            engine, engine.store.get(row.attempt.job_id), row.attempt.number, rank
        )
    return None


def _among_results(engine: Engine, job: Job, number: int, rank: int) -> KeptLog | None:
    earlier = 0 if number == job.attempt else number
    path = f"{job.results_dir.rstrip('/')}/.tao/{name_of(rank, earlier)}"
    if not job.results_dir or not is_inside(path, job.results_dir):
        return None
    files = files_of(engine, job)
    try:
        if not files.stat(path).size:
            return None
    except PathNotFound:
        return None
    return KeptLog(
        lambda: files.stat(path).size,
        lambda at, limit: files.read(path, at, limit),
        is_bytewise=False,
    )


def name_of(rank: int, earlier: int) -> str:
    """The name of a copy among the results. `earlier` is the number of an attempt that others have
    followed, or 0.
    """
    name = f"job.rank-{rank}.log" if rank else "job.log"
    return f"{name}.attempt-{earlier}" if earlier else name


def is_inside(path: str, folder: str) -> bool:
    """True if a path of this machine leads to no place outside `folder`. For other paths, their own
    machine decides.
    """
    return in_bucket(path) or Path(path).resolve().is_relative_to(Path(folder).resolve())
