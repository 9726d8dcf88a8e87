"""`tao results --epoch` and `--only`: one checkpoint, and some of the files."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support.tao_command import COMMAND, Ended, Tao
from support.tao_terminal import on_terminal
from tao_sdk.cli.results import copied_path
from tao_sdk.model.errors import PathNotFound

CHECKPOINTS = (
    'mkdir "$TAO_RESULTS_DIR/train"; for i in 1 2 3; do echo $i > '
    '"$TAO_RESULTS_DIR/train/model_epoch_00$i.pth"; done'
)
LOSSES = "echo epoch 1 loss 0.9; echo epoch 2 loss 0.1; echo epoch 3 loss 0.5"


def copied(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_an_epoch_is_shown_and_fetched_alone(ended: Ended, tmp_path: Path) -> None:
    ran = ended.tao("results", ended.complete, "--epoch", "2", "--fetch", str(tmp_path / "copy"))
    assert ran.code == 0
    assert ran.out == f"{tmp_path}/copy/train/model_epoch_002.pth\n"
    assert ran.err.splitlines()[-1] == f"here     {tmp_path}/copy/"
    assert copied(tmp_path / "copy") == {"train/model_epoch_002.pth"}
    told = ended.tao("results", "--json", ended.complete, "--epoch", "2").json
    assert (told["of_epoch"]["epoch"], told["of_epoch"]["path"].endswith("_002.pth")) == (2, True)
    assert told["checkpoints"] == [told["of_epoch"]]


def test_the_best_and_the_last_checkpoint_are_shown_and_fetched_by_a_word(
    tao: Tao, tmp_path: Path
) -> None:
    job = tao.run_detached(f"{CHECKPOINTS}; {LOSSES}")
    tao("wait", job)
    for word, name, said in (
        ("best", "train/model_epoch_002.pth", "The best: loss 0.100 at epoch 2."),
        ("last", "train/model_epoch_003.pth", "The newest that is whole: epoch 3."),
        ("newest", "train/model_epoch_003.pth", "The newest that is whole: epoch 3."),
    ):
        ran = tao("results", job, "--epoch", word, "--fetch", word)
        assert (ran.code, said in ran.err.splitlines()) == (0, True), ran.err
        assert name in ran.out.splitlines()[0]
        assert copied(tmp_path / word) == {name}
        assert (
            tao("results", job, "--json", "--epoch", word).json["of_epoch"]["path"].endswith(name)
        )


def test_one_checkpoint_is_its_path_alone_for_a_program(ended: Ended) -> None:
    ran = ended.tao("results", ended.complete, "--epoch", "best")
    path = ended.tao("results", "--json", ended.complete, "--epoch", "best").json["of_epoch"][
        "path"
    ]
    assert (ran.code, ran.out) == (0, f"{path}\n")
    assert Path(path).is_absolute()
    assert "The best: " in ran.err
    assert ran.err.splitlines()[-1].endswith("  whole")


def test_no_path_is_printed_of_a_copy_that_was_left_out(tmp_path: Path) -> None:
    with pytest.raises(PathNotFound, match="was not copied"):
        copied_path(tmp_path / "model_epoch_002.pth", "digits-o2c7xu4xkj")


def test_one_checkpoint_has_its_size_beside_it_on_a_terminal(ended: Ended) -> None:
    code, written = on_terminal(
        ended.tao, "results", ended.complete, "--epoch", "2", "--fetch", "seen", columns=200
    )
    assert code == 0
    assert re.search(r"runs/\S+/train/model_epoch_002.pth  \d+ B  whole\r\n", written)
    assert written.endswith("here     seen/\r\n")


def test_a_word_for_a_checkpoint_says_the_epoch_as_the_log_counts(tao: Tao) -> None:
    from_zero = "; ".join(f"echo epoch {n} loss 0.{9 - n}" for n in range(3))
    job = tao.run_detached(f"{CHECKPOINTS.replace('1 2 3', '0 1 2')}; {from_zero}")
    tao("wait", job)
    assert "The newest that is whole: epoch 2." in tao("results", job, "--epoch", "last").err
    assert "The best: loss 0.700 at epoch 2." in tao("results", job, "--epoch", "best").err


def test_a_file_that_is_called_last_is_the_last_where_no_other_has_a_number(tao: Tao) -> None:
    folder = 'mkdir "$TAO_RESULTS_DIR/weights"; cd "$TAO_RESULTS_DIR/weights"'
    job = tao.run_detached(f"{folder}; echo 1 > best.pt; echo 1 > last.pt")
    tao("wait", job)
    for word in ("best", "last"):
        assert f"weights/{word}.pt" in tao("results", job, "--epoch", word).out


def test_why_there_is_no_best_checkpoint_is_told_with_3(tao: Tao) -> None:
    job = tao.run_detached(CHECKPOINTS)
    tao("wait", job)
    ran = tao("results", job, "--epoch", "best", "--fetch", "copy")
    assert (ran.code, ran.out, (tao.home / "copy").exists()) == (3, "", False)
    assert ran.err.splitlines() == [
        "error: There is no best checkpoint.",
        "why:   The job told no metric by which one is the best.",
        f"next:  All of them: tao results {job}",
    ]


def test_another_word_for_an_epoch_is_refused(ended: Ended) -> None:
    for word in ("first", "-1", "9" * 20):
        refused = ended.tao("results", ended.complete, "--epoch", word)
        assert (refused.code, refused.out) == (2, "")
        assert "is no epoch. Give its number, best or last." in refused.err


def test_a_single_file_is_counted_as_one(tao: Tao) -> None:
    job = tao.run_detached('printf 42 > "$TAO_RESULTS_DIR/answer"')
    tao("wait", job)
    assert tao("results", job).out.splitlines()[0].endswith("(1 file, 2 B)")


def test_a_job_that_left_nothing_has_no_folder_named(tao: Tao) -> None:
    job = tao.run_detached("true")
    tao("wait", job)
    folder = tao("status", "--json", job).json["results_dir"]
    assert not Path(folder).exists()
    assert Path(folder).name not in tao("results", job).out


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
    assert "The best checkpoint: tao results JOB --epoch best" in refused.err


def test_only_and_epoch_are_refused_together_with_the_command_for_either(ended: Ended) -> None:
    flags = ("--only", "*.pth", "--epoch", "2", "--fetch", "a copy")
    refused = ended.tao("results", ended.complete, *flags)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.splitlines() == [
        "error: --only and --epoch cannot be given together.",
        "why:   Each of them chooses what --fetch copies.",
        f"next:  The checkpoint: tao results {ended.complete} --fetch 'a copy' --epoch 2",
    ]


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
    assert ran.err.startswith(f"error: {job} left no results.")
    assert not (tao.home / "copy").exists()


def test_weights_whose_names_tell_nothing_are_told_how_a_checkpoint_is_called(tao: Tao) -> None:
    job = tao.run_detached('echo x > "$TAO_RESULTS_DIR/m_01.npz"')
    tao("wait", job)
    told = "no checkpoints: m_01.npz has no name of one, such as model_epoch_003.npz, and lies in"
    assert told in tao("results", job).out
    assert told in tao("results", job, "--epoch", "best").err
