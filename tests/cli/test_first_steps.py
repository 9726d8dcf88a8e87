"""`tao init` and `tao images`: the first things a person types; and what other tools have taught
his fingers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.tao_command import Ended, Ran, Tao
from tao_sdk import __version__
from tao_sdk.client.job_file import read_job_file


def test_the_job_file_that_init_writes_runs_as_it_is(tao: Tao) -> None:
    ran = tao("init")
    assert (ran.code, ran.err) == (0, "")
    assert "tao run job.yaml" in ran.out
    ran = tao("run", "job.yaml", "--set", "train.lr=0.5", "--json")
    assert ran.code == 0, ran.err
    assert (ran.json_lines[-1]["status"], ran.json_lines[-1]["progress"]["epochs"]) == (
        "Complete",
        3,
    )
    assert "lr: 0.5" in tao("logs", ran.json_lines[-1]["id"]).out


@pytest.mark.parametrize("platform", ["local", "docker", "slurm", "kubernetes", "lepton"])
def test_init_writes_a_valid_file_for_each_platform_with_what_was_asked(
    typed: Callable[..., Ran], tmp_path: Path, platform: str
) -> None:
    odd = 'two words: "#1"'
    ran = typed(
        "init",
        "mine.yaml",
        "--platform",
        platform,
        "--name",
        odd,
        "--image",
        "my/image:1",
        "--json",
    )
    assert ran.json == {"schema": 1, "file": "mine.yaml", "platform": platform}
    job = read_job_file(tmp_path / "mine.yaml")
    assert (job.platform, job.spec.name, job.spec.image, job.spec.gpu_count) == (
        platform,
        odd,
        "my/image:1",
        0,
    )


def test_where_an_image_is_needed_init_names_one(typed: Callable[..., Ran], tmp_path: Path) -> None:
    assert typed("init", "--platform", "docker").code == 0
    assert read_job_file(tmp_path / "job.yaml").spec.image


def test_init_never_writes_over_a_file_nor_through_a_link(
    typed: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text("mine")
    (tmp_path / "link.yaml").symlink_to("elsewhere.yaml")
    for name in ("job.yaml", "link.yaml"):
        ran = typed("init", name)
        assert (ran.code, ran.out) == (2, "")
        assert f"{name} is there already." in ran.err
    assert (tmp_path / "job.yaml").read_text() == "mine"
    assert not (tmp_path / "elsewhere.yaml").exists()


def test_the_comments_of_a_new_job_file_hold_no_line_of_its_name(
    typed: Callable[..., Ran], tmp_path: Path
) -> None:
    name = "a\ncommand: echo other #.yaml"
    assert typed("init", name).code == 0
    assert read_job_file(tmp_path / name).spec.command.startswith("cat")


def test_images_lists_the_keys_and_what_they_stand_for(
    typed: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "tao_toolkit.pyt" in typed("images").out
    mine = tmp_path / "mine.yaml"
    mine.write_text("images: {b: {x: 'img:2'}, a: 'img:1'}\n")
    monkeypatch.setenv("TAO_VERSIONS_FILE", str(mine))
    assert typed("images", "--json").json == {
        "schema": 1, "file": str(mine), "images": {"a": "img:1", "b.x": "img:2"},
    }  # fmt: skip
    mine.write_text("images: {a: 3}\n")
    assert typed("images").code == 2


def test_the_version_is_told_to_people_and_programs(typed: Callable[..., Ran]) -> None:
    assert typed("-V").out == f"tao {__version__}\n"
    for words in (("--version", "--json"), ("--json", "-V")):
        assert typed(*words).json == {"schema": 1, "version": __version__}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("resume", "x"), "Did you mean tao retry?"),
        (("restart",), "Did you mean tao retry?"),
        (("exec", "x"), "tao why JOB"),
        (("automl", "run", "f.yaml", "--image", "a"), "tao run FILE --automl-policy on --image"),
        (("ssh", "x"), "tao why JOB"),
        (("cp", "x"), "tao results JOB --fetch DIR"),
        (("top",), "tao status JOB"),
        (("lgos",), "Did you mean tao logs?"),
        (("run", "--dry-run", "job.yaml"), "tao plan"),
        (("--dry-run",), "tao plan"),
        (("logs", "x", "--since", "10m"), "tao logs JOB --tail N"),
        (("events", "--since", "10m"), "N is the number that stands before an event"),
        (("ls", "--since", "1d"), "tao ls --limit N"),
        (("ls", "-n", "5"), "tao ls --limit N"),
        (("ls", "-a"), "tao ls --limit 0"),
        (("ls", "--failed"), "tao ls --status error"),
        (("ls", "--status", "failed"), "Did you mean error?"),
        (("ls", "--filter", "a"), "--label NAME=VALUE"),
        (("ls", "--watch"), "tao events --follow"),
        (("logs", "x", "--lines", "3"), "tao logs JOB --tail N"),
        (("results", "x", "--best"), "tao results JOB --epoch best"),
        (("results", "x", "--latest"), "tao results JOB --epoch last"),
        (("run", "--background", "job.yaml"), "tao run --detach"),
        (("run", "--lr", "0.1", "job.yaml"), "--set KEY=VALUE"),
        (("cancel", "--all"), "tao ls"),
        (("sbatch", "x"), "Did you mean tao run?"),
        (("sweep",), "--set train.lr=0.1 --label lr=0.1"),
        (("eval",), "tao results JOB"),
        (("checkpoints", "x"), "tao results?"),
        (("platforms",), "Did you mean tao doctor?"),
    ],
)
def test_what_other_tools_call_it_leads_to_what_there_is(
    typed: Callable[..., Ran], words: tuple[str, ...], told: str
) -> None:
    ran = typed(*words)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert "--state-file" not in ran.err


def test_an_image_key_is_taken_for_the_image_that_it_stands_for(
    typed: Callable[..., Ran], tmp_path: Path
) -> None:
    versions = tmp_path / "versions.yaml"
    versions.write_text("images: {tool: {one: 'registry/one:1'}}")
    (tmp_path / "job.yaml").write_text("command: x\nimage: tool.one\ngpu_count: 0\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAO_VERSIONS_FILE", str(versions))
        ran = typed("plan", "job.yaml")
        assert (ran.code, "registry/one:1" in ran.out) == (0, True)
        assert "tool.one is registry/one:1." in ran.err
        mistyped = typed("plan", "job.yaml", "--image", "tool.onee")
        assert "is taken as the name of an image. Did you mean tool.one?" in mistyped.err
        assert "tool.onee" in mistyped.out
        assert typed("plan", "job.yaml", "--image", "ubuntu:22.04").err == ""


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("ls", "--nonsense"), "tao ls --help"),
        (("xyzzy",), "tao --help"),
        (("run", "--lr", "1"), "tao run --help"),
    ],
)
def test_wrong_usage_names_a_command_that_a_program_can_run_next(
    typed: Callable[..., Ran], words: tuple[str, ...], command: str
) -> None:
    assert typed("--json", *words).error["next"] == command
    assert typed(*command.split()[1:]).code == 0


def test_a_folder_is_answered_with_the_job_file_in_it(
    typed: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "train").mkdir()
    assert "Name the file in it.\n" in typed("run", "train").err
    (tmp_path / "train" / "job.yaml").write_text("command: x")
    assert "Name the file in it: train/job.yaml\n" in typed("run", "train").err


def test_a_word_that_is_like_no_verb_gets_no_suggestion(typed: Callable[..., Ran]) -> None:
    assert "Did you mean" not in typed("resolve").err


def test_the_end_of_a_log_can_be_asked_for_as_tail_does(ended: Ended) -> None:
    assert (
        ended.tao("logs", ended.complete, "-n", "1").out
        == ended.tao("logs", ended.complete, "--tail", "1").out
    )


@pytest.mark.parametrize("verb", ["status", "logs", "results", "why"])
def test_without_a_job_the_newest_is_meant_and_named_on_stderr(ended: Ended, verb: str) -> None:
    ran = ended.tao(verb)
    assert ran.code == 0, ran.err
    assert ran.err.splitlines()[0] == f"{ended.canceled}, the newest job."
    assert ran.out == ended.tao(verb, ended.canceled).out
    told = ended.tao(verb, "--json").err
    assert json.loads(told) == {"note": f"{ended.canceled}, the newest job."}


@pytest.mark.parametrize("verb", ["status", "logs", "results", "why"])
def test_without_any_job_that_is_told(typed: Callable[..., Ran], verb: str) -> None:
    ran = typed(verb)
    assert (ran.code, ran.out) == (3, "")
    assert "No jobs yet." in ran.err


def test_a_list_comes_an_object_a_line_where_that_is_asked_for(ended: Ended) -> None:
    listed = ended.tao("ls", "--json").json
    for words in (("ls", "--jsonl"), ("--jsonl", "ls")):
        assert ended.tao(*words).json_lines == listed
    assert ended.tao("events", "--jsonl").json_lines == ended.tao("events", "--json").json
    assert ended.tao("status", "--jsonl", ended.complete).json_lines == [
        ended.tao("status", "--json", ended.complete).json
    ]
    assert ended.tao("status", "--jsonl", "none-such").error["code"] == "job.not_found"
