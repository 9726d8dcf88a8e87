"""The kept copy of a log is the log, also when the keeper was killed in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_sdk.client import Client
from tao_sdk.engine.drain import drain
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec


def test_a_drain_that_was_cut_short_repeats_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TAO_SDK_STATE_DIR": str(tmp_path / "state")}
    with Client(settings=Settings(environ)) as client:
        job = client.submit(JobSpec(command="seq 1 1000", gpu_count=0), "local").job
        client.wait(job.id, timeout=30)
        row = client.store.attempt(job.id)
        client.engine.log_copies.append(row.attempt, b"1\n2\n3")  # killed before the cursor was saved
        drain(client.engine, job, row)
        drain(client.engine, job, client.store.attempt(job.id))
        size = client.engine.log_copies.size(row.attempt)
        assert client.engine.log_copies.read(row.attempt, 0, size) == b"".join(
            f"{n}\n".encode() for n in range(1, 1001)
        )
