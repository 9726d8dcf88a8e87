"""`tao results --epoch` and `--only`: one checkpoint, and some of the files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.tao_command import COMMAND, Ended, Tao


def copied(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_an_epoch_is_shown_and_fetched_alone(ended: Ended, tmp_path: Path) -> None:
    ran = ended.tao("results", ended.complete, "--epoch", "2", "--fetch", str(tmp_path / "copy"))
    assert ran.code == 0
    assert "train/model_epoch_002.pth" in ran.out
    assert ran.out.splitlines()[-1] == f"here     {tmp_path}/copy/"
    assert copied(tmp_path / "copy") == {"train/model_epoch_002.pth"}
    told = ended.tao("results", "--json", ended.complete, "--epoch", "2").json
    assert (told["of_epoch"]["epoch"], told["of_epoch"]["path"].endswith("_002.pth")) == (2, True)


def test_an_epoch_without_a_checkpoint_ends_with_3_and_names_those_there_are(ended: Ended) -> None:
    ran = ended.tao("results", ended.complete, "--epoch", "12")
    assert (ran.code, ran.out) == (3, "")
    assert "train/model_epoch_003.pth" in ran.err
    assert ran.err.splitlines()[-1] == f"next:  All of them: tao results {ended.complete}"


def test_only_what_fits_a_pattern_is_fetched(ended: Ended, tmp_path: Path) -> None:
    one = ["--only", "*_001.pth", "--only", "train/*_003.pth"]
    assert ended.tao("results", ended.complete, "--fetch", str(tmp_path / "two"), *one).code == 0
    assert copied(tmp_path / "two") == {"train/model_epoch_001.pth", "train/model_epoch_003.pth"}
    assert (
        ended.tao(
            "results", ended.complete, "--fetch", str(tmp_path / "all"), "--only", "train/"
        ).code
        == 0
    )
    assert len(copied(tmp_path / "all")) == 3


def test_patterns_that_nothing_fits_end_with_3_and_copy_nothing(
    ended: Ended, tmp_path: Path
) -> None:
    ran = ended.tao(
        "results", ended.complete, "--fetch", str(tmp_path / "none"), "--only", "*.onnx"
    )
    assert (ran.code, "*.onnx" in ran.err, (tmp_path / "none").exists()) == (3, True, False)
    assert f"tao results {ended.complete} --json" in ran.err


def test_a_pattern_that_nothing_fits_names_the_files_whose_names_are_near(
    ended: Ended, tmp_path: Path
) -> None:
    into = str(tmp_path / "none")
    ran = ended.tao("results", ended.complete, "--fetch", into, "--only", "model_epoch_004.pth")
    assert "A pattern is of names, such as '*.pth'" in ran.err
    assert "There are: train/model_epoch_00" in ran.err


@pytest.mark.parametrize(("word", "epoch"), [("best", 3), ("newest", 3), ("latest", 3)])
def test_a_word_for_a_checkpoint_in_place_of_a_pattern_leads_to_its_file(
    ended: Ended, tmp_path: Path, word: str, epoch: int
) -> None:
    into = str(tmp_path / "copy")
    ran = ended.tao("results", ended.complete, "--fetch", into, "--only", word, "--json")
    assert (ran.code, ran.out) == (3, "")
    command = f"tao results {ended.complete} --fetch DIR --only ./train/model_epoch_00{epoch}.pth"
    assert ran.error["next"] == command
    assert not (tmp_path / "copy").exists()
    again = ended.tao(*command.replace("DIR", into).split()[1:])
    assert (again.code, copied(tmp_path / "copy")) == (0, {f"train/model_epoch_00{epoch}.pth"})


def test_a_file_that_is_called_best_is_fetched_by_that_name(tao: Tao) -> None:
    make = 'echo 1 > "$TAO_RESULTS_DIR/best"; echo 1 > "$TAO_RESULTS_DIR/model_epoch_001.pth"'
    job = tao.run_detached(f"{make}; echo epoch 1/1 accuracy 0.5")
    tao("wait", job)
    assert tao("results", job, "--fetch", "copy", "--only", "best").code == 0
    assert copied(tao.home / "copy") == {"best"}


def test_an_epoch_of_a_job_without_checkpoints_leads_to_what_it_left(tao: Tao) -> None:
    job = tao.run_detached("true")
    tao("wait", job)
    ran = tao("results", job, "--epoch", "9")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.splitlines()[1:] == [
        "why:   The job has no checkpoints.",
        f"next:  What it left: tao results {job}",
    ]


def test_paths_are_whole_for_somebody_in_another_folder(ended: Ended) -> None:
    for folder in ("/", "/usr"):
        ran = subprocess.run(
            [*COMMAND, "results", ended.complete],
            cwd=folder,
            env=ended.tao.env,
            capture_output=True,
            text=True,
            check=True,
        )
        for line in ran.stdout.splitlines()[:3]:
            assert Path(line.split()[1]).is_absolute(), line


def test_a_job_in_the_place_of_a_path_leads_to_its_results(ended: Ended) -> None:
    for word in (ended.complete, "good"):
        ran = ended.tao("files", word, "--json")
        assert (ran.code, ran.out) == (3, "")
        assert (ran.error["cause"], ran.error["next"]) == (
            f"{word} is a job.",
            f"tao results {ended.complete}",
        )
    assert "job" not in ended.tao("files", "no-such-thing").err


def test_only_without_fetch_is_refused(ended: Ended) -> None:
    refused = ended.tao("results", ended.complete, "--only", "best")
    assert (refused.code, refused.out) == (2, "")
    assert "It takes a pattern of names, such as '*.pth'" in refused.err
    assert "The best and the newest checkpoint: tao results JOB" in refused.err


def test_after_a_copy_it_is_said_where_the_files_now_lie(ended: Ended) -> None:
    here = ended.tao.home / "copied"
    assert ended.tao("results", ended.complete, "--fetch", str(here)).out.splitlines()[
        -1
    ].split() == [
        "here",
        "copied/",
    ]


def test_why_no_checkpoint_is_the_best_is_told(tao: Tao) -> None:
    make = 'mkdir "$TAO_RESULTS_DIR/train"; echo 1 > "$TAO_RESULTS_DIR/train/model_epoch_001.pth"'
    job = tao.run_detached(make)
    tao("wait", job)
    assert (
        "best     -  (the job told no metric by which one is the best)" in tao("results", job).out
    )


def test_nothing_to_fetch_makes_no_folder_and_ends_with_3(tao: Tao) -> None:
    job = tao.run_detached("true")
    assert tao("wait", job).code == 0
    ran = tao("results", job, "--fetch", "copy")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith(f"error: {job} has no results.")
    assert not (tao.home / "copy").exists()
