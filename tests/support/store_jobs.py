"""Jobs and attempts for the tests of the store."""

from __future__ import annotations

from typing import Any

from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.store import Store


def row(store: Store, job_id: str, number: int = 1, **plan: Any) -> AttemptRow:
    return AttemptRow(
        Attempt(job_id, number, "local", "host-1", store.store_id),
        plan or {"request": {"command": "true"}},
    )


def add(store: Store, job_id: str, *, plan: dict[str, Any] | None = None, **fields: Any) -> Job:
    given = {"name": job_id.rpartition("-")[0] or job_id, "platform": "local", **fields}
    return store.add(Job(id=job_id, **given), row(store, job_id, **(plan or {})))


def ref(attempt: Attempt, native_id: str = "17") -> Ref:
    return Ref(
        attempt.platform,
        attempt.endpoint,
        "",
        native_id,
        f"boot:{native_id}",
        attempt,
        details={"pid": native_id},
    )
