"""Copies of a job's results: whatever its files are called, and whatever becomes of them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_sdk.model.settings import Settings
from tao_sdk.platforms.local import LocalSDK


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSDK]:
    monkeypatch.chdir(tmp_path)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TAO_SDK_STATE_DIR": str(tmp_path / "state")}
    with LocalSDK(settings=Settings(environ)) as sdk:
        yield sdk


def written(sdk: LocalSDK, command: str) -> tuple[str, Path]:
    """A job that wrote its results, and where they are."""
    job = sdk.create_job(command=f"mkdir -p $TAO_RESULTS_DIR; cd $TAO_RESULTS_DIR; {command}", gpu_count=0)
    assert sdk.wait(job.id, timeout=30).status == "Complete", sdk.get_job_logs(job.id)
    return job.id, Path(job.results_dir)


def test_a_file_whose_name_begins_with_two_dots_lies_among_the_results(sdk: LocalSDK) -> None:
    job, _ = written(sdk, "echo 1 > ..data; echo 2 > ok")
    assert [path.name for path in sdk.fetch_results(job, "here")] == ["..data", "ok"]


def test_files_with_the_longest_names_that_there_may_be_are_copied(sdk: LocalSDK) -> None:
    names = sorted(["模" * 85, "x" * 255])
    job, _ = written(sdk, f"touch {' '.join(names)}")
    assert [path.name for path in sdk.fetch_results(job, "here")] == sorted(names)
