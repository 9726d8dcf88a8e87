"""Resume: a new attempt goes on from the newest checkpoint that is certainly complete."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tao_sdk.runner.outputs.manifest import parse_manifest
from tao_sdk.runner.outputs.tree import names_checkpoint

KEY = "resume_training_checkpoint_path"


def attempt(jobs, number, command="cat {config_path}", given="", env=None):
    ran = jobs.run(
        command,
        specs={"train": {KEY: given}, "results_dir": ""},
        outputs=["results_dir"],
        config_format="json",
        files={"data.npz": "data"},
        env={"TAO_ATTEMPT": str(number), **(env or {})},
    )
    return ran


def resumed_from(ran):
    assert ran.code == 0, ran.raw
    return json.loads(ran.out)["train"][KEY]


@pytest.fixture
def first(jobs):
    """An attempt that left three checkpoints, the one of the highest name not the newest."""
    ran = attempt(
        jobs,
        1,
        "cd $TAO_RESULTS_DIR/results_dir; for n in 9 1 2; do "
        'echo $n > epoch_$n.pth; touch -d "$((20 - n % 9)) min ago" epoch_$n.pth; done',
    )
    assert len([path for path in ran.files if path.endswith(".pth")]) == 3
    return jobs.results / "results_dir"


def test_an_empty_key_is_filled_with_the_newest_complete_checkpoint(jobs, first):
    ran = attempt(jobs, 2)
    assert resumed_from(ran) == str(first / "epoch_2.pth")
    assert ran.named("resumed")[0].facts["path"] == str(first / "epoch_2.pth")


def test_the_same_attempt_started_again_resumes_too(jobs, first):
    assert resumed_from(attempt(jobs, 1)) == str(first / "epoch_2.pth")


def test_a_checkpoint_that_is_newer_than_the_manifest_is_not_trusted(jobs, first):
    (first / "epoch_3.pth").write_text("half writ")
    assert resumed_from(attempt(jobs, 2)) == str(first / "epoch_2.pth")


def test_a_checkpoint_that_changed_since_is_not_trusted(jobs, first):
    (first / "epoch_2.pth").write_text("overwritten, half")
    assert resumed_from(attempt(jobs, 2)) == str(first / "epoch_1.pth")


def test_a_checkpoint_that_was_being_written_when_the_command_failed_is_not_trusted(jobs, first):
    attempt(jobs, 2, "echo half > $TAO_RESULTS_DIR/results_dir/epoch_3.pth; exit 1")
    assert resumed_from(attempt(jobs, 3)) == str(first / "epoch_2.pth")


def test_without_a_manifest_nothing_is_resumed(jobs, first):
    (jobs.results / ".tao" / "manifest.json").unlink()
    assert resumed_from(attempt(jobs, 2)) == ""


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", '{"files": null}', '{"job": "job-1", "files": [{"path": 1}]}', "null"]
)
def test_a_manifest_that_cannot_be_read_resumes_nothing(jobs, first, broken):
    (jobs.results / ".tao" / "manifest.json").write_text(broken)
    ran = attempt(jobs, 2)
    assert resumed_from(ran) == ""
    assert ran.warnings == ["resume.nothing"]


def test_another_jobs_manifest_resumes_nothing(jobs, first):
    path = jobs.results / ".tao" / "manifest.json"
    path.write_text(path.read_text().replace('"job-1"', '"job-2"'))
    assert resumed_from(attempt(jobs, 2)) == ""


def test_it_can_be_turned_off(jobs, first):
    assert resumed_from(attempt(jobs, 2, env={"TAO_AUTO_RESUME": "0"})) == ""


def test_a_value_of_the_users_is_kept(jobs, first):
    assert resumed_from(attempt(jobs, 2, given="/my/own.pth")) == "/my/own.pth"


@pytest.mark.parametrize("empty", [{}, {"from": ""}, {"from": None}])
def test_a_key_that_the_action_names_is_filled_instead(jobs, first, empty):
    more = {
        "outputs": ["results_dir"],
        "config_format": "json",
        "files": {"data.npz": "data"},
        "env": {"TAO_ATTEMPT": "2"},
    }
    specs = {"model": {"restore": empty}, "train": {KEY: ""}, "results_dir": ""}
    ran = jobs.run("cat {config_path}", specs=specs, resume_key="model.restore.from", **more)
    assert ran.code == 0, ran.raw
    assert json.loads(ran.out)["model"]["restore"]["from"] == str(first / "epoch_2.pth")
    assert json.loads(ran.out)["train"][KEY] == ""


FOLDER = (
    "cd $TAO_RESULTS_DIR/results_dir; mkdir -p {n}/inner; for f in model-1.safetensors model-2.safetensors inner/optim.pt "
    "config.json; do echo {n} > {n}/$f; touch -d '{age} min ago' {n}/$f; done"
)


@pytest.fixture
def folders(jobs):
    """An attempt that left two checkpoints that are folders, and an older one that is a file."""
    older = (
        "echo 1 > $TAO_RESULTS_DIR/results_dir/epoch_1.pth; touch -d '1 hour ago' "
        "$TAO_RESULTS_DIR/results_dir/epoch_1.pth"
    )
    made = [
        FOLDER.format(n=n, age=age) for n, age in (("checkpoint-900", 9), ("checkpoint-1000", 2))
    ]
    assert attempt(jobs, 1, "; ".join([older, *made])).code == 0
    return jobs.results / "results_dir"


def test_a_folder_of_files_is_a_checkpoint(jobs, folders):
    ran = attempt(jobs, 2)
    assert resumed_from(ran) == str(folders / "checkpoint-1000")
    assert jobs.manifest_folders() == {
        "results_dir/checkpoint-1000": [4, 64], "results_dir/checkpoint-900": [4, 60],
    }  # fmt: skip


@pytest.mark.parametrize(
    "change", ["rm inner/optim.pt", "echo 2 >> config.json", "echo 3 > model-3.safetensors"]
)
def test_a_folder_in_which_anything_changed_since_is_not_trusted(jobs, folders, change):
    subprocess.run(change, shell=True, cwd=folders / "checkpoint-1000", check=True)
    assert resumed_from(attempt(jobs, 2)) == str(folders / "checkpoint-900")


def test_a_folder_of_which_one_file_was_being_written_when_the_command_failed_is_not_trusted(
    jobs, folders
):
    """Nor is any file of it taken for a checkpoint of its own."""
    for name in ("checkpoint-900", "checkpoint-1000"):
        shutil.rmtree(folders / name)
    more = (
        FOLDER.format(n="checkpoint-1100", age=1)
        + "; echo more >> checkpoint-1100/model-2.safetensors; exit 1"
    )
    attempt(jobs, 2, more)
    assert resumed_from(attempt(jobs, 3)) == str(folders / "epoch_1.pth")


def test_a_file_alone_in_its_folder_is_the_checkpoint_itself(jobs, first):
    attempt(
        jobs,
        2,
        "mkdir $TAO_RESULTS_DIR/results_dir/epoch_5; echo 5 > "
        "$TAO_RESULTS_DIR/results_dir/epoch_5/model.pth",
    )
    assert resumed_from(attempt(jobs, 3)) == str(first / "epoch_5" / "model.pth")


@pytest.mark.parametrize(
    ("command", "anew", "again"),
    [
        ("echo run", "run --lr 1", "run --lr 1 --resume PATH"),
        ("echo run --from {resume} --on", "run --on --lr 1", "run --from PATH --on --lr 1"),
        ("echo run --from='{resume}'", "run --lr 1", "run --from=PATH --lr 1"),
    ],
)
def test_an_argument_is_filled_and_left_out_where_there_is_no_checkpoint(
    jobs, first, command, anew, again
):
    more = {"files": {"data.npz": "data"}, "env": {"TAO_ATTEMPT": "2"}}

    def said():
        ran = jobs.run(
            command, args={"lr": 1, "resume": ""}, outputs=[], resume_key="resume", **more
        )
        assert ran.code == 0, ran.raw
        return ran.out.decode().strip()

    assert said() == again.replace("PATH", str(first / "epoch_2.pth"))
    (jobs.results / ".tao" / "manifest.json").unlink()
    assert said() == anew


def test_a_named_key_that_is_set_is_the_users_and_one_without_specs_is_refused(jobs, first):
    specs = {"restore": "/my/own.pth", "results_dir": ""}
    ran = jobs.run(
        "cat {config_path}",
        specs=specs,
        outputs=["results_dir"],
        config_format="json",
        resume_key="restore",
    )
    assert json.loads(ran.out)["restore"] == "/my/own.pth"
    with pytest.raises(ValueError, match="resume_key"):
        jobs.run("true", resume_key="restore")


def test_a_null_stays_null_when_there_is_nothing_to_resume(jobs):
    assert resumed_from(attempt(jobs, 1, given=None)) is None


def test_a_job_killed_with_its_runner_resumes_from_what_was_synced(jobs, eventually):
    job = jobs.start(
        "cd $TAO_RESULTS_DIR/results_dir; echo 1 > epoch_1.pth; while :; do echo more >> "
        "epoch_2.pth; sleep 0.01; done",
        specs={"train": {KEY: ""}, "results_dir": ""},
        outputs=["results_dir"],
        config_format="json",
        env={"TAO_SYNC_SECONDS": "0.4"},
    )
    path = jobs.results / ".tao" / "manifest.json"
    eventually(
        lambda: (
            path.exists()
            and '"results_dir/epoch_1.pth"' in path.read_text()
            and hashed(path, "results_dir/epoch_1.pth")
        )
    )
    group = child_of(job.process.pid)
    job.process.kill()
    os.killpg(group, 9)
    job.process.communicate()
    assert resumed_from(attempt(jobs, 2)) == str(jobs.results / "results_dir" / "epoch_1.pth")


def hashed(path, name):
    return any(
        each["path"] == name and each["sha256"] for each in json.loads(path.read_text())["files"]
    )


def child_of(pid):
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 200_000,
        b'{"files": [], "folders": {"a": [1e999, 1]}}',
        b'{"files": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        (
            b'{"files": [{"path": "../../x.pth", "size": 1, "mtime": 1, '
            b'"sha256": "a"}], "folders": {}}'
        ),
        b'{"files": [{"path": "/x.pth", "size": 1, "mtime": 1, "sha256": "a"}], "folders": {}}',
    ],
)
def test_a_manifest_that_makes_no_sense_names_no_file(text):
    assert parse_manifest(text).get("files", []) == []


def test_a_pipe_in_the_place_of_the_manifest_is_not_waited_for(jobs):
    (jobs.results / ".tao").mkdir(parents=True)
    os.mkfifo(jobs.results / ".tao" / "manifest.json")
    ran = attempt(jobs, 2, "true")
    assert ran.code == 0 and ran.manifest["whole"]


@pytest.mark.parametrize(
    "name",
    [
        "best",
        "Latest",
        "last",
        "a.ckpt",
        "checkpoint-500",
        "global_step100",
        "globalstep_1",
        "iter_0000100",
        "epoch=3-step=40",
        "Epoch_3_iter_1",
        "ckpt3",
    ],
)
def test_the_name_of_a_folder_says_that_it_is_a_checkpoint(name):
    assert names_checkpoint(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "epoch",
        "step-",
        "500",
        "-500",
        ".ckpt",
        "best1",
        "epochs_3",
        "epoch--3",
        "my_epoch_3",
        "epoch_3-lr_1",
        "epoch_3-step_4-step_5",
        "epoch-step3",
        "-step3",
    ],
)
def test_the_name_of_another_folder_does_not(name):
    assert not names_checkpoint(name)
