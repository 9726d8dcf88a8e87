"""Files that a job wrote beside its results, into the folder that it started in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tao_sdk.client.stray_files import MOST_ENTRIES, StrayFiles, stray_files
from tao_sdk.platforms.local import LocalSDK

SAVES = "mkdir -p checkpoints; echo 1 > checkpoints/model_1.pt; echo 2 > last.pt"


def strays_of(command: str, **spec: object) -> StrayFiles | None:
    with LocalSDK() as sdk:
        job_id = sdk.create_job(command=command, gpu_count=0, **spec).id  # type: ignore[arg-type]
        sdk.wait(job_id)
        return stray_files(sdk, sdk.get_job(job_id), sdk.results(job_id))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder: with a script and data that are older than any job."""
    monkeypatch.setenv("TAO_STATE_DIR", str(tmp_path / "state"))
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    for name in ("train.py", "data/old.npz"):
        (folder / name).write_text("old")
        os.utime(folder / name, (1.0, 1.0))
    os.utime(folder / "data", (1.0, 1.0))
    monkeypatch.chdir(folder)
    return folder


def test_what_a_job_wrote_beside_its_results_is_named(folder: Path) -> None:
    stray = strays_of(SAVES)
    assert stray is not None
    assert stray == StrayFiles(str(folder), ("checkpoints/", "last.pt"))
    assert "checkpoints/, last.pt" in stray.words
    assert "$TAO_RESULTS_DIR" in stray.words


def test_the_file_that_the_caller_sends_its_output_to_is_not_named(folder: Path) -> None:
    with (folder / "told.txt").open("w") as told:
        kept = os.dup(2)
        os.dup2(told.fileno(), 2)
        try:
            os.write(2, b"a word")
            stray = strays_of("echo 2 > last.pt")
        finally:
            os.dup2(kept, 2)
            os.close(kept)
    assert stray is not None
    assert stray.names == ("last.pt",)


def test_a_job_with_results_and_one_that_wrote_nothing_have_no_stray_files() -> None:
    assert strays_of(f'{SAVES}; echo 3 > "$TAO_RESULTS_DIR/model.pt"') is None
    assert strays_of("true", name="idle") is None


def test_the_root_of_the_machine_where_everybody_writes_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There cron starts jobs, and /proc is always new."""
    monkeypatch.setenv("TAO_RESULTS_ROOT", str(tmp_path / "runs"))
    monkeypatch.chdir("/")
    assert strays_of("true") is None


def test_a_large_folder_is_looked_at_in_part(folder: Path) -> None:
    many = folder / "many"
    many.mkdir()
    for number in range(2 * MOST_ENTRIES):
        (many / f"{number}.txt").touch()
    stray = strays_of("touch new.txt; touch many/*")
    assert stray is not None
    assert set(stray.names) == {"many/", "new.txt"}
