"""Several mistakes of one job file: each is told for people and for programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.tao_command import Ran
from tao_sdk import Client, JobSpec
from tao_sdk.cli.flag_words import with_flags
from tao_sdk.model.errors import Refused
from tao_sdk.model.settings import Settings

WRONG = "command: x\ngpu_cont: 0\nenv_vars: {A-B: c}\noptions:\n  local: {venv_pth: /v}\n"


def test_every_mistake_has_lines_of_its_own(typed: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG)
    ran = typed("run", "wrong.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "error: wrong.yaml:2:1: unknown key 'gpu_cont'.",
        "next:  Did you mean gpu_count?",
        "error: wrong.yaml:3:11: env_vars has the name 'A-B'; letters, digits and _ are allowed.",
        "error: wrong.yaml:5:11: unknown key 'venv_pth' of local.",
        "next:  Did you mean venv_path?",
    ]


def test_programs_get_the_list_with_line_and_key(typed: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG)
    ran = typed("plan", "--json", "wrong.yaml")
    assert ran.code == 2
    error = ran.error
    assert error["code"] == "job_file.invalid"
    assert "gpu_cont" in error["message"]
    assert [(one["file"], one["line"], one["key"]) for one in error["mistakes"]] == [  # pyright: ignore
        ("wrong.yaml", 2, "gpu_cont"), ("wrong.yaml", 3, "env_vars"),
        ("wrong.yaml", 5, "options.local.venv_pth"),
    ]  # fmt: skip


def test_the_doctor_tells_all_of_them_too(typed: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG)
    ran = typed("doctor", "wrong.yaml")
    assert ran.code == 2
    assert ran.err.count("error: ") == 3


WRONG_DATA = """\
command: "true {config_path}"
gpu_count: 0
mode: args
specs:
  train: {d: "hf://a/b", m: "ngc://x"}
inputs:
  train.nope: {type: fil}
  train.gone: {}
  train.d: {}
outputs: ["/proc"]
"""
EACH_OF_THE_DATA = [
    (3, "mode"),
    (5, "specs.train.m"),
    (7, "inputs.train.nope"),
    (8, "inputs.train.gone"),
    (9, "inputs.train.d"),
    (10, "outputs./proc"),
]


def places_told(ran: Ran) -> list[tuple[int, str]]:
    mistakes: Any = ran.error["mistakes"]
    return [(one["line"], one["key"]) for one in mistakes]


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_what_is_wrong_with_the_data_of_a_job_is_told_at_once(
    typed: Callable[..., Ran], tmp_path: Path, verb: str
) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG_DATA)
    ran = typed(verb, "--json", "wrong.yaml")
    assert ran.code == 2
    assert places_told(ran) == EACH_OF_THE_DATA


def test_it_is_told_beside_the_mistakes_of_other_fields(
    typed: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG_DATA.replace("gpu_count", "gpu_cont"))
    told = places_told(typed("plan", "--json", "wrong.yaml"))
    assert told == sorted([(2, "gpu_cont"), *EACH_OF_THE_DATA])


def test_a_value_that_is_set_beside_the_file_is_not_told_as_missing(
    typed: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG_DATA.replace("gpu_count", "gpu_cont"))
    ran = typed("plan", "--json", "wrong.yaml", "--set", "train.gone=/here")
    assert (8, "inputs.train.gone") not in places_told(ran)


def test_where_the_specs_cannot_be_read_nothing_is_said_of_what_names_their_keys(
    typed: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "wrong.yaml").write_text("command: x\nspecs: nowhere.yaml\ninputs: [a.b]\n")
    ran = typed("plan", "--json", "wrong.yaml")
    assert "there is no file" in ran.error["message"]
    assert "mistakes" not in ran.error


def test_mistakes_of_paths_without_specs_are_told_at_once(
    typed: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "wrong.yaml").write_text(
        "command: x\ninputs: {/a: 'hf://a/b', /b: {uri: /c, type: fil}}\noutputs: [/, /proc]\n"
    )
    told = places_told(typed("plan", "--json", "wrong.yaml"))
    assert [key for _, key in told] == ["inputs./a", "inputs./b", "outputs./", "outputs./proc"]


def test_the_doctor_tells_each_mistake_of_the_data_as_a_finding(
    typed: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG_DATA)
    ran = typed("doctor", "--json", "wrong.yaml")
    told = [one for one in ran.json["findings"] if one["code"] == "job_file.invalid"]
    assert len(told) == len(EACH_OF_THE_DATA)


def test_advice_names_a_flag_at_the_command_and_an_argument_in_python(
    typed: Callable[..., Ran], tmp_path: Path
) -> None:
    spec = JobSpec(command="true", gpu_count=1000)
    settings = Settings({"TAO_SDK_STATE_DIR": str(tmp_path / "state")})
    with Client(settings=settings) as client, pytest.raises(Refused) as refused:
        client.submit(spec, "local")
    assert re.fullmatch(r"Use gpu_count=\d+\.", refused.value.next)
    ran = typed("run", "--gpus", "1000", "--", "true")
    assert re.search(r"^next:  Use --gpus \d+\.$", ran.err, re.MULTILINE)
    told = typed("plan", "--gpus", "1000", "--", "true").out
    assert re.search(r"-> Use --gpus \d+\.", told)


@pytest.mark.parametrize(
    ("advice", "told"),
    [
        ("Ask for cpus=0.01 or more.", "Ask for --cpus 0.01 or more."),
        ("Use num_nodes=2.", "Use --nodes 2."),
        ("Write --set retries=3", "Write --set retries=3"),
        ("Write --args 'cpus=3'", "Write --args 'cpus=3'"),
        ("tao run -- python train.py epochs=3", "tao run -- python train.py epochs=3"),
    ],
)
def test_only_a_field_of_the_job_becomes_a_flag(advice: str, told: str) -> None:
    assert with_flags(advice) == told
