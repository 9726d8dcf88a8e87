"""Kept logs: where an attempt's log can be read when its backend has lost it: our copy, else the
one among the results.

The runner keeps a log beside the results (.tao/job.log, runner/place.py). The job could write
there: no link is followed out of the results.
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
    """`read(offset, limit)` gives at least one byte until the end. `is_bytewise`: offsets are those
    of the backend's log.
    """

    size: Callable[[], int]
    read: Callable[[int, int], bytes]
    is_bytewise: bool


def kept_log(engine: Engine, row: AttemptRow, rank: int) -> KeptLog | None:
    """None where nothing is kept."""
    copies = engine.store.log_copies
    if copies.size(row.attempt, rank):
        return KeptLog(
            lambda: copies.size(row.attempt, rank),
            lambda offset, limit: copies.read(row.attempt, offset, limit, rank),
            is_bytewise=True,
        )
    with suppress(TaoError):  # the results cannot be looked at: then nothing is known to be kept
        return _among_results(
            engine, engine.store.get(row.attempt.job_id), row.attempt.number, rank
        )
    return None


def _among_results(engine: Engine, job: Job, number: int, rank: int) -> KeptLog | None:
    name = name_of(rank, 0 if number == job.attempt else number)
    path = f"{job.results_dir.rstrip('/')}/.tao/{name}"
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
    """The file's name; `earlier` is the number of an attempt that others have followed, or 0."""
    name = f"job.rank-{rank}.log" if rank else "job.log"
    return f"{name}.attempt-{earlier}" if earlier else name


def is_inside(path: str, folder: str) -> bool:
    """Whether a path of this machine leads to no place outside `folder`. Of others, their own
    machine decides.
    """
    return in_bucket(path) or Path(path).resolve().is_relative_to(Path(folder).resolve())
