"""A place that costs money: what it costs is told before and after a job is submitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.places import Place, local
from support.rented import PRICE, use_rented
from tao_sdk.backends.contract import read_plan
from tao_sdk.cli import planned as plan_text
from tao_sdk.cli.first_words import job_head
from tao_sdk.cli.output import Output
from tao_sdk.client import Client
from tao_sdk.model.spec import JobSpec


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    use_rented(monkeypatch)
    return local(tmp_path)


def test_the_price_is_in_the_plan_and_in_the_first_line_of_a_job(client: Client) -> None:
    planned = client.plan(JobSpec(command="true", gpu_count=0), "local")
    assert "  price    $2.50 per hour (stand-in, 1 GPU)" in plan_text.summary(planned, Output())
    job = client.submit(JobSpec(command="true", gpu_count=0), "local").job
    assert job_head(job) == f"{job.id}  local  $2.50 per hour"
    assert client.get_job(job.id).to_json()["backend_details"]["price_per_hour"] == 2.5
    row = client.store.attempt(job.id)
    assert read_plan(client.engine.backend_of(job), row).price == PRICE
