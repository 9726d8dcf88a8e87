"""Drain: keep a copy of an attempt's log, before the backend forgets it."""

from __future__ import annotations

from tao_sdk.backends.contract import LogRequest
from tao_sdk.engine.engine import Engine
from tao_sdk.model.errors import PathNotFound
from tao_sdk.model.job import AttemptRow, Job


def drain(engine: Engine, job: Job, row: AttemptRow) -> None:
    """Keep what the copy does not have yet of an attempt's log: before it is released, replaced, or forgotten.

    The saved cursor says how large the copy was; what a crash had already appended beyond that is not appended again.
    """
    if row.ref is None:
        return
    size, _, cursor = row.log_cursor.partition(" ")
    skip = engine.log_copies.size(row.attempt) - int(size or 0)
    try:
        for chunk in engine.backend_of(job).logs(row.ref, LogRequest(cursor=cursor)):
            engine.log_copies.append(row.attempt, chunk.data[max(skip, 0) :])
            skip -= len(chunk.data)
            engine.store.save_log_cursor(row.attempt, f"{engine.log_copies.size(row.attempt)} {chunk.cursor}")
    except PathNotFound:
        return
