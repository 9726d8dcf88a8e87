"""The day of the command, as a program in Python has it: run, watch, fail, cancel, try again,
compare.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_sdk import Client
from tao_sdk.model.settings import Settings
from tao_sdk.platforms.local import LocalSDK

pytestmark = pytest.mark.slow

TRAINING = "for i in 1 2 3; do echo epoch $i/3 accuracy 0.$i; done"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.chdir(tmp_path)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
    }
    return Settings(environ)


@pytest.fixture
def sdk(settings: Settings) -> Iterator[LocalSDK]:
    with LocalSDK(settings=settings) as sdk:
        yield sdk


def test_a_job_is_run_watched_and_its_results_are_read(sdk: LocalSDK) -> None:
    command = f'{TRAINING}; echo 1 > "$TAO_RESULTS_DIR/model_epoch_003.pth"'
    job = sdk.create_job(command=command, gpu_count=0)
    assert sdk.wait(job.id, timeout=300).status == "Complete"
    left = sdk.results(job.id)
    assert Path(left.best or "").name == "model_epoch_003.pth"
    assert left.progress.metrics == {"accuracy": 0.3}
    assert "epoch 3/3" in sdk.get_job_logs(job.id)


def test_a_failure_says_why_and_a_retry_goes_on(sdk: LocalSDK) -> None:
    job = sdk.create_job(command="cat data.csv", gpu_count=0)
    assert sdk.wait(job.id, timeout=300).status == "Error"
    diagnosis = sdk.diagnose(job.id)
    assert diagnosis is not None
    assert "cat: data.csv" in diagnosis.what
    Path("data.csv").write_text("mended\n")
    sdk.retry_job(job.id)
    assert sdk.wait(job.id, timeout=300).status == "Complete"
    assert "mended" in sdk.get_job_logs(job.id)


def test_another_program_finds_a_job_by_its_name_and_cancels_it(
    sdk: LocalSDK, settings: Settings
) -> None:
    job = sdk.create_job(command="sleep 300", gpu_count=0, name="endless")
    with Client(settings=settings) as other:
        assert other.get_job("endless").id == job.id
        assert other.cancel_job(job.id, grace=0.1)
    assert sdk.get_job_status(job.id).status == "Canceled"


def test_a_sweep_is_compared_by_its_label(sdk: LocalSDK) -> None:
    values = ("0.1", "0.2")
    jobs = [
        sdk.create_job(
            command=f"echo epoch 1/1 accuracy {value}", gpu_count=0, labels={"lr": value}
        ).id
        for value in values
    ]
    sdk.wait_all(jobs, timeout=300)
    best = sdk.list_jobs(sort="accuracy", limit=1)[0]
    assert best.labels == {"lr": "0.2"}
    assert sdk.compare(jobs).differ[0] == "label lr"
