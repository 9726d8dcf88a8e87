"""Drain: keep a copy of an attempt's log, every rank's, before the backend forgets it."""

from __future__ import annotations

from tao_sdk.backends.contract import LogRequest
from tao_sdk.engine.engine import Engine
from tao_sdk.model.errors import PathNotFound
from tao_sdk.model.job import AttemptRow, Job


def drain(engine: Engine, job: Job, row: AttemptRow) -> None:
    """Keep what the copy does not have yet of an attempt's log: before it is released, replaced, or forgotten.

    The saved cursor has a line for each rank. It says how large the copy was; what a crash had already appended beyond
    that is not appended again.
    """
    if row.ref is None:
        return
    cursors = (row.log_cursor.split("\n") + [""] * ranks(row))[: ranks(row)]
    for rank, saved in enumerate(cursors):
        size, _, cursor = saved.partition(" ")
        skip = engine.store.log_copies.size(row.attempt, rank) - int(size or 0)
        try:
            for chunk in engine.backend_of(job).logs(row.ref, LogRequest(rank=rank, cursor=cursor)):
                engine.store.log_copies.append(row.attempt, chunk.data[max(skip, 0) :], rank)
                skip -= len(chunk.data)
                cursors[rank] = f"{engine.store.log_copies.size(row.attempt, rank)} {chunk.cursor}"
                engine.store.save_log_cursor(row.attempt, "\n".join(cursors))
        except PathNotFound:
            return


def ranks(row: AttemptRow) -> int:
    """How many logs an attempt has."""
    return int(row.plan.get("backend_details", {}).get("num_nodes") or 1)
