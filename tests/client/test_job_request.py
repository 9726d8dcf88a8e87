"""From what was typed to a job: what a page and a tool server ask the client for, as the command
does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tao_sdk.client.job_request import TypedJob, platforms_with, read_request
from tao_sdk.client.typed_values import open_secrets
from tao_sdk.model.errors import SpecError, UsageError
from tao_sdk.model.spec import JobSpec
from tao_sdk.platforms.local import LocalSDK


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_a_command_alone_is_a_job_on_this_machine_whose_results_are_kept() -> None:
    request = read_request(TypedJob(command=["python", "my train.py"]))
    assert (request.spec.command, request.platform) == ("python 'my train.py'", "local")
    assert request.spec.keep_results is True


def test_what_was_typed_wins_over_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "command: echo a\nplatform: docker\nimage: x\ngpu_count: 1\n"
    )
    request = read_request(TypedJob("job.yaml", platform="local", fields={"gpu_count": "3"}))
    assert (request.spec.gpu_count, request.spec.command, request.platform) == (
        3,
        "echo a",
        "local",
    )


def typed_over(tmp_path: Path, command: str, **typed: Any) -> tuple[dict[str, Any], str]:
    """(args of the job, notes) of a command typed over a job file with args."""
    (tmp_path / "job.yaml").write_text(
        "command: echo a\nargs: {lr: 0.1, epochs: 3, batch_size: 2, data: x.txt}\n"
        "inputs: {data: {type: file}}\n"
    )
    request = read_request(TypedJob("job.yaml", command=[command], **typed))
    return dict(request.spec.args or {}), "\n".join(request.notes)


def test_an_arg_of_the_job_file_gives_way_to_the_typed_commands_own(tmp_path: Path) -> None:
    args, notes = typed_over(tmp_path, "python t.py --epochs 1 --batch-size=8 --data y.txt")
    assert args == {"lr": 0.1, "data": "x.txt"}, "data is an input of the job"
    assert "epochs of job.yaml is left out: the typed command has it." in notes
    assert "batch_size of job.yaml is left out" in notes
    assert "args of job.yaml are added to the typed command: lr, data" in notes


def test_an_arg_that_was_typed_beside_the_command_stays(tmp_path: Path) -> None:
    args, _ = typed_over(tmp_path, "t --epochs 1 --lr 2", set_values=["epochs=5"])
    assert (args["epochs"], "lr" in args) == (5, False)
    args, _ = typed_over(tmp_path, "t --epochs 1", fields={"args": ("epochs=7",)})
    assert args["epochs"] == 7


def test_an_option_is_read_by_the_platform_that_the_job_file_names(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("command: echo a\nplatform: slurm\nimage: x\n")
    request = read_request(TypedJob("job.yaml", option_pairs=["partition=gpu"]))
    assert request.options["partition"] == "gpu"


def test_a_request_for_nothing_says_how_to_ask() -> None:
    with pytest.raises(UsageError, match="nothing to run"):
        read_request(TypedJob())


def test_the_platforms_that_have_an_option_are_known() -> None:
    assert platforms_with("partition") == ["slurm"]


def test_a_secret_is_open_where_its_value_was_typed_and_not_where_its_name_was() -> None:
    assert open_secrets(["API_KEY=a", "OTHER_TOKEN", "LEVEL=3"]) == ["API_KEY"]


def test_an_argument_of_numbers_with_commas_is_noted_as_one_text() -> None:
    asked = read_request(TypedJob(command=("x",), fields={"args": ["lr=0.1,0.2", "n=3"]}))
    assert asked.spec.args == {"lr": "0.1,0.2", "n": 3}
    assert len(asked.notes) == 1
    assert "--args 'lr=[0.1, 0.2]'" in asked.notes[0]


@pytest.mark.parametrize(
    ("typed", "do"),
    [
        ("data.txt", "--inputs data.txt=data.txt"),
        ("sub/a b.txt", "--inputs 'a b.txt=sub/a b.txt'"),
        ("s3://bucket/coco/", "--inputs coco=s3://bucket/coco/"),
        ("dataset.train", "--inputs dataset.train=folder"),
        ("/nowhere/data", "--inputs /nowhere/data=/nowhere/data"),
        (sys.executable, f"--inputs {Path(sys.executable).name}={sys.executable}"),
    ],
)
def test_an_input_without_a_name_is_refused_with_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, do: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "data.txt").touch()
    with pytest.raises(UsageError, match="it must be NAME=PATH") as told:
        read_request(TypedJob(command=("x",), fields={"inputs": [typed]}))
    assert do in told.value.next


@pytest.mark.parametrize("flag", ["args", "specs"])
def test_a_path_where_specs_or_args_make_the_input_a_key_is_told_with_what_to_type(
    sdk: LocalSDK, flag: str
) -> None:
    with pytest.raises(SpecError, match="names a key of") as told:
        sdk.create_job(command="x", gpu_count=0, inputs={"data": "src/a.txt"}, **{flag: {"lr": 1}})
    assert "a path" in told.value.why
    assert "file" in told.value.next


RELATIVE = [
    "specs: {data: in/x}\ninputs: {data: {}}\n",
    "args: {data: in/x}\ninputs: {data: file}\n",
    "inputs: {x: in/x}\n",
    "inputs: [in/x]\n",
    "inputs: {x: {uri: in/x}}\n",
    "specs: spec.yaml\ninputs: {data: {}}\n",
    "specs: {resume_training_checkpoint_path: in/x}\n",
]


def data_paths(spec: JobSpec) -> str:
    return f"{spec.specs} {spec.args} {spec.inputs}"


@pytest.mark.parametrize("declared", RELATIVE)
def test_a_relative_input_of_a_job_file_is_a_path_in_the_files_folder(
    tmp_path: Path, declared: str
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "spec.yaml").write_text("data: in/x\n")
    (folder / "job.yaml").write_text(f"command: x {{config_path}}\n{declared}")
    asked = read_request(TypedJob("project/job.yaml"))
    assert f"{folder}/in/x" in data_paths(asked.spec)


def test_a_job_file_in_another_folder_needs_no_data(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "job.yaml").write_text("command: x\ngpu_count: 0\n")
    assert read_request(TypedJob("project/job.yaml")).spec.inputs is None


@pytest.mark.parametrize("declared", RELATIVE)
def test_where_the_job_does_not_see_this_machine_a_relative_input_stays_as_it_is(
    tmp_path: Path, declared: str
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "spec.yaml").write_text("data: in/x\n")
    job = f"command: x\nimage: i\nplatform: slurm\n{declared}"
    (tmp_path / "project" / "job.yaml").write_text(job)
    asked = read_request(TypedJob("project/job.yaml"))
    assert str(tmp_path) not in data_paths(asked.spec)


def test_what_is_typed_beside_a_job_file_is_relative_to_the_folder_of_the_submit(
    tmp_path: Path,
) -> None:
    (tmp_path / "project").mkdir()
    declared = "specs: {data: in/x, more: in/y}\ninputs: {data: {}, more: {}}\n"
    (tmp_path / "project" / "job.yaml").write_text(f"command: x {{config_path}}\n{declared}")
    typed = TypedJob("project/job.yaml", set_values=("data=here/x",))
    assert read_request(typed).spec.specs == {
        "data": "here/x",
        "more": f"{tmp_path}/project/in/y",
    }


def test_an_input_that_travels_with_the_job_stays_as_the_job_file_has_it(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "x").touch()
    text = "command: x {config_path}\nfiles: {in/x: x}\n" + RELATIVE[0]
    (tmp_path / "project" / "job.yaml").write_text(text)
    assert read_request(TypedJob("project/job.yaml")).spec.specs == {"data": "in/x"}


def test_a_job_file_from_a_pipe_has_no_folder_of_its_own(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    os.write(writes, b"command: x {config_path}\n" + RELATIVE[0].encode())
    os.close(writes)
    try:
        asked = read_request(TypedJob(f"/dev/fd/{reads}"))
    finally:
        os.close(reads)
    assert asked.spec.specs == {"data": "in/x"}
