"""gc: what cannot be let go of today is tomorrow's, and nobody else's matter."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tao_sdk.client import Client
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.plan import Ref
from tao_sdk.model.spec import JobSpec


class Holds:
    """The real backend, which lets go of all jobs but one."""

    def __init__(self, backend: Any, job: str) -> None:
        self._backend, self._job = backend, job

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def release(self, ref: Ref) -> None:
        if ref.attempt.job_id == self._job:
            raise Unreachable("its node is away")
        self._backend.release(ref)


def test_a_job_that_cannot_be_let_go_of_keeps_no_other_from_it_and_is_told(client: Client) -> None:
    jobs = [client.submit(JobSpec(command="true", gpu_count=0), "local").job.id for _ in range(3)]
    client.wait_all(jobs, timeout=300)
    endpoint = client.store.attempt(jobs[1]).attempt.endpoint
    real = client.engine.backend("local", endpoint)
    client.engine._backends["local", endpoint] = Holds(real, jobs[1])  # pyright: ignore
    with pytest.raises(Unreachable, match="its node is away"):
        client.gc(older_than=timedelta(0))
    assert client.gc(older_than=timedelta(0), dry_run=True) == [jobs[1]]
    client.engine._backends["local", endpoint] = real
    assert client.gc(older_than=timedelta(0)) == [jobs[1]]
