"""From what was typed to a job: what a page and a tool server ask the client for, as the command
does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_sdk.client.job_request import TypedJob, platforms_with, read_request
from tao_sdk.client.typed_values import open_secrets
from tao_sdk.model.errors import SpecError, UsageError
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
