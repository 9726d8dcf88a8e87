"""Progress: how far a job's training is, read from what is new in its log; a milestone is never skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tao_sdk.backends.contract import LogRequest, MiB
from tao_sdk.engine import hooks
from tao_sdk.engine.engine import Engine
from tao_sdk.model.errors import PathNotFound, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.progress import Progress, ProgressReader
from tao_sdk.runner.events import EventFilter
from tao_sdk.store import NewEvent

MOST_AT_ONCE = 16 * MiB


def scan(engine: Engine, job: Job) -> Job:
    """Read on from where the last scan ended, and write down what was found. Two readers at once do not double it."""
    ref = engine.ref_of(job)
    if ref is None:
        return job
    same_attempt = job.progress.get("attempt") == job.attempt
    kept: Mapping[str, Any] = job.progress if same_attempt else {}
    data, cursor = _read_on(engine, job, str(kept.get("cursor", "")))
    if not data:
        return job
    before = Progress.from_json(job.progress.get("is", {}))
    text, rest = _whole_lines(bytes.fromhex(str(kept.get("rest", ""))) + data)
    updates = ProgressReader(before).feed(EventFilter().feed(text)[0])
    after = updates[-1] if updates else before
    state = {**after.to_json(), "is": after.to_json(), "attempt": job.attempt, "cursor": cursor, "rest": rest.hex()}
    epochs = [one.epoch for one in updates if one.epoch]
    events = [NewEvent(job.id, "progress", data={"epoch": one.epoch, **one.metrics}) for one in updates if one.epoch]
    written = engine.store.update(replace(job, progress=state), [*events, *hooks.milestones_due(job, epochs)])
    return written or engine.store.get(job.id)


def _read_on(engine: Engine, job: Job, cursor: str) -> tuple[bytes, str]:
    data = bytearray()
    ref = engine.ref_of(job)
    assert ref is not None
    try:
        for chunk in engine.backend_of(job).logs(ref, LogRequest(cursor=cursor)):
            data += chunk.data
            cursor = chunk.cursor
            if len(data) >= MOST_AT_ONCE:
                break
    except (PathNotFound, Unreachable):
        pass
    return bytes(data), cursor


def _whole_lines(data: bytes) -> tuple[bytes, bytes]:
    """(whole lines, the line that is still being written, of which only the end of a very long one is kept)."""
    end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    return data[:end], data[end:][-4096:]
