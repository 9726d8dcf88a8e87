"""A job that failed or was canceled: why, what it left, and another try."""

from __future__ import annotations

import pytest

from support.tao_command import Tao

pytestmark = pytest.mark.slow


def test_a_script_that_is_not_there_is_named_and_the_retry_finds_it(tao: Tao) -> None:
    ran = tao("run", "--gpus", "0", "--name", "typo", "--", "python3", "train.py")
    assert ran.code == 1
    assert "The program's file is not where the job runs" in ran.out
    assert "--files PATH" in tao("why", "typo").out
    tao.write("train.py", "print('trained')")
    assert tao("retry", "typo").code == 0
    assert tao("logs", "typo").out.endswith("trained\n")


def test_a_job_that_left_nothing_is_not_said_to_have_written_nothing_yet(tao: Tao) -> None:
    job = tao.run_detached("sleep 60")
    tao.until("Running", "status", job)
    assert "Nothing has been written there yet." in tao("results", job).out
    assert tao("cancel", job, "--grace", "1s").code == 0
    assert "The job left no results." in tao("results", job).out


def test_a_canceled_training_says_which_checkpoints_count_and_a_retry_goes_on(
    tao: Tao, example: str
) -> None:
    assert tao("run", example, "--detach", "--name", "long").code == 0
    tao.until("epoch 3/20", "logs", "long")
    assert tao("cancel", "long").code == 0
    left = tao("results", "long").out
    assert "  whole" in left  # it saves and ends by itself when it is told to end
    assert "known to be whole" not in left
    assert tao("retry", "long").code == 0
    assert "finished" in tao("logs", "long").out
    assert "known to be whole" not in tao("results", "long").out


def test_a_relative_file_that_is_missing_is_told_with_the_folder_that_the_job_ran_in(
    tao: Tao,
) -> None:
    tao.write("read.py", "open('data/train.csv')")
    ran = tao("run", "--gpus", "0", "--", "python3", "read.py")
    assert "'data/train.csv' (the job ran in /" in ran.out


def test_who_wrote_nothing_to_the_results_is_told_how_to_keep_files(tao: Tao) -> None:
    assert tao("run", "--gpus", "0", "--name", "apart", "--", "mkdir -p ckpt").code == 0
    told = tao("results", "apart").out
    assert "write to $TAO_RESULTS_DIR" in told
    assert "--outputs DIR" in told
    assert "$TAO_RESULTS_DIR" in tao("run", "--help").out
    kept = 'echo 1 > "$TAO_RESULTS_DIR/a.txt"'
    assert tao("run", "--gpus", "0", "--name", "kept", "--", kept).code == 0
    assert "(1 file," in tao("results", "kept").out
