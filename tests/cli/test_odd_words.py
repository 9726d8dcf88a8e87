"""What people and programs type that makes no sense, or not the sense they meant: a line that says
so, and nothing done.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from support.tao_command import Ran, Tao

HUGE = "9" * 20


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("wait", "--timeout", "1e400", "x"), "is longer than time can be counted"),
        (("wait", "--timeout", f"{HUGE}d", "x"), "is longer than time can be counted"),
        (("wait", "--timeout", "nan", "x"), "is not a duration"),
        (("cancel", "--grace", "-1", "x"), "is negative"),
        (("gc", "--older-than", "-5"), "is negative"),
        (("gc", "--older-than", "3"), "3d are days"),
        (("run", "python3", "train.py", "--lr", "3"), "tao run -- python3 train.py --lr 3"),
        (("run", "--gpus", "0", "python3", "train.py"), "tao run --gpus 0 -- python3 train.py"),
        (("run", "python3"), "tao run -- python3"),
        (("run", "-"), "/dev/stdin"),
        (("stop", "x"), "Did you mean tao cancel?"),
        (("run", "https://host/job.yaml"), "fetch it first"),
    ],
)
def test_it_is_told_in_words_and_ends_with_2(
    typed: Callable[..., Ran], args: tuple[str, ...], told: str
) -> None:
    ran = typed(*args)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert len(ran.err.splitlines()) <= 3


@pytest.mark.parametrize("args", [("ls", "--limit", HUGE), ("events", "--since", HUGE)])
def test_a_number_larger_than_any_is_a_number(
    typed: Callable[..., Ran], args: tuple[str, ...]
) -> None:
    assert typed(*args, "--json").code == 0


def test_a_path_of_a_cluster_is_not_looked_for_here_without_a_word(
    typed: Callable[..., Ran],
) -> None:
    ran = typed("files", "lustre:///nowhere/data")
    assert (ran.code, "--platform slurm" in ran.err) == (3, True)
    assert "--platform slurm" not in typed("files", "/nowhere/data").err


def test_an_unknown_platform_in_a_job_file_is_told_with_its_line(tao: Tao) -> None:
    tao.write("job.yaml", "command: x\nplatform: slrum\n")
    ran = tao("run", "job.yaml")
    assert (ran.code, ran.err) == (
        2,
        "error: job.yaml:2:11: unknown platform 'slrum'.\nnext:  Did you mean slurm?\n",
    )


def test_a_pipe_is_read_like_a_file_and_waited_for_by_nobody(tao: Tao) -> None:
    os.mkfifo(tao.home / "job.yaml")
    ran = tao("plan", "job.yaml")
    assert (ran.code, "this job file is empty" in ran.err) == (2, True)
    reader, writer = os.pipe()
    os.write(writer, b"command: echo piped\ngpu_count: 0\n")
    os.close(writer)
    saved = os.dup(0)
    os.dup2(reader, 0)
    try:
        assert "echo piped" in tao("plan", "/dev/stdin").out
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(reader)


def test_of_several_jobs_none_is_forgotten_while_one_runs(tao: Tao) -> None:
    over, live = tao.run_detached("true"), tao.run_detached("sleep 60")
    assert tao("wait", over).code == 0
    ran = tao("rm", over, live)
    assert (ran.code, ran.out, live in ran.err) == (2, "", True)
    assert tao("status", over).code == 0
    assert tao("rm", over, over).code == 0


def test_an_error_quotes_no_more_than_people_can_read(typed: Callable[..., Ran]) -> None:
    assert len(typed("status", "x" * 100_000).err) < 3000
    assert "x" * 100_000 in typed("status", "--json", "x" * 100_000).error["message"]


def test_json_may_stand_before_the_verb(typed: Callable[..., Ran]) -> None:
    assert typed("--json", "ls").json == []
    assert typed("--json", "status", "none-such").error["code"] == "job.not_found"
