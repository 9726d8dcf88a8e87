from __future__ import annotations

import ast
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tao_sdk.model.progress_reader import ProgressReader

pytestmark = pytest.mark.slow

np = pytest.importorskip("numpy")

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def write_spec(folder: Path, results: Path | str, **train: Any) -> Path:
    spec = yaml.safe_load((DIGITS / "spec.yaml").read_text())
    spec["results_dir"] = str(results)
    spec["dataset"]["path"] = str(DIGITS / "digits.npz")
    spec["train"].update({"seconds_per_epoch": 0, **train})
    path = folder / f"spec-{len(list(folder.iterdir()))}.json"
    path.write_text(json.dumps(spec))
    return path


def command(spec: Path) -> list[str]:
    return [sys.executable, str(DIGITS / "train.py"), "-e", str(spec)]


def train(folder: Path, name: str = "results", **options: Any) -> subprocess.CompletedProcess[str]:
    spec = write_spec(folder, folder / name, **options)
    return subprocess.run(command(spec), capture_output=True, text=True, cwd=folder, check=False)


def weights(path: Path) -> dict[str, Any]:
    with np.load(path) as state:
        return dict(state)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    ended = train(folder)
    assert ended.returncode == 0, ended.stderr
    return folder / "results"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_learns_to_read_digits_from_any_start(tmp_path: Path, seed: int):
    assert train(tmp_path, seed=seed).returncode == 0
    assert json.loads((tmp_path / "results" / "metrics.json").read_text())["accuracy"] >= 0.97


def test_every_epoch_leaves_a_whole_checkpoint_and_nothing_half_written(whole: Path):
    names = sorted(path.name for path in (whole / "train").iterdir())
    assert names == [f"model_epoch_{epoch:03}.npz" for epoch in range(1, 21)]
    assert [int(weights(whole / "train" / name)["epoch"]) for name in names] == list(range(1, 21))


def test_its_status_file_tells_every_epoch_its_metrics_and_the_end(whole: Path):
    text = (whole / "status.json").read_bytes()
    updates = ProgressReader().feed(text)
    lines = [json.loads(line) for line in text.splitlines()]
    assert [update.epoch for update in updates] == list(range(1, 21))
    assert set(updates[-1].metrics) == {"loss", "val_loss", "accuracy"}
    assert (lines[0]["status"], lines[-1]["status"]) == ("STARTED", "SUCCESS")
    assert updates[-1].eta_seconds == 0


def test_its_log_tells_the_same_as_its_status_file(tmp_path: Path, whole: Path):
    from_log = ProgressReader().feed(train(tmp_path).stdout.encode())[-1]
    from_status = ProgressReader().feed((whole / "status.json").read_bytes())[-1]
    assert (from_log.epoch, from_log.epochs) == (from_status.epoch, from_status.epochs) == (20, 20)
    assert from_log.metrics["accuracy"] == pytest.approx(from_status.metrics["accuracy"], abs=5e-4)


def test_the_same_seed_gives_the_same_model(tmp_path: Path, whole: Path):
    train(tmp_path)
    again = weights(tmp_path / "results/train/model_epoch_020.npz")
    assert all(
        np.array_equal(again[name], value)
        for name, value in weights(whole / "train/model_epoch_020.npz").items()
    )


def test_a_resumed_training_ends_with_the_weights_of_one_that_was_never_interrupted(
    tmp_path: Path, whole: Path
):
    half = whole / "train" / "model_epoch_010.npz"
    ended = train(tmp_path, resume_training_checkpoint_path=str(half))
    resumed = weights(tmp_path / "results/train/model_epoch_020.npz")
    assert "epoch 11/20" in ended.stdout
    assert "epoch 10/20" not in ended.stdout
    assert all(
        np.array_equal(resumed[name], value)
        for name, value in weights(whole / "train/model_epoch_020.npz").items()
    )


def test_sigterm_leaves_a_whole_checkpoint_and_a_code_that_is_no_signals(tmp_path: Path):
    spec = write_spec(tmp_path, tmp_path / "results", seconds_per_epoch=60)
    with subprocess.Popen(command(spec), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("epoch 1/20")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=300) == 75
    assert [path.name for path in (tmp_path / "results/train").iterdir()] == ["model_epoch_001.npz"]
    assert int(weights(tmp_path / "results/train/model_epoch_001.npz")["epoch"]) == 1
    assert (
        json.loads((tmp_path / "results/status.json").read_text().splitlines()[-1])["status"]
        == "FAILURE"
    )


def test_a_failure_is_told_in_the_status_file(tmp_path: Path):
    ended = train(tmp_path, resume_training_checkpoint_path="/nowhere/model.npz")
    assert ended.returncode == 1
    assert (
        "/nowhere/model.npz"
        in json.loads((tmp_path / "results/status.json").read_text().splitlines()[-1])["message"]
    )


def test_the_job_file_carries_every_file_that_the_trainer_needs(tmp_path: Path):
    job = yaml.safe_load((DIGITS / "job.yaml").read_text())
    for inside, here in job["files"].items():
        (tmp_path / inside).write_bytes((DIGITS / here).read_bytes())
    spec = yaml.safe_load((DIGITS / job["specs"]).read_text())
    spec["train"].update(num_epochs=1)
    spec.update(dict.fromkeys(job["outputs"], "out"))
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    line = job["command"].replace("{config_path}", "spec.json").replace("python3", sys.executable)
    ended = subprocess.run(
        line, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "out/train/model_epoch_001.npz").is_file()


def test_the_trainer_runs_on_old_pythons_and_needs_numpy_only():
    tree = ast.parse((DIGITS / "train.py").read_text(), feature_version=(3, 8))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert imported - set(sys.stdlib_module_names) == {"numpy"}


def test_the_data_is_scikit_learns():
    sklearn = pytest.importorskip(
        "sklearn.datasets", reason="the data was made with scikit-learn, which is not here"
    )
    digits, ours = sklearn.load_digits(), weights(DIGITS / "digits.npz")
    assert np.array_equal(digits.data, ours["images"])
    assert np.array_equal(digits.target, ours["labels"])
