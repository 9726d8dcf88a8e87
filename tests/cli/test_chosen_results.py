"""`tao results --epoch` and `--only`: one checkpoint, and some of the files."""

from __future__ import annotations

from pathlib import Path

from support.tao_command import Ended, Tao


def copied(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_an_epoch_is_shown_and_fetched_alone(ended: Ended, tmp_path: Path) -> None:
    ran = ended.tao("results", ended.complete, "--epoch", "2", "--fetch", str(tmp_path / "copy"))
    assert ran.code == 0
    assert "train/model_epoch_002.pth" in ran.out
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


def test_only_without_fetch_is_refused(ended: Ended) -> None:
    assert ended.tao("results", ended.complete, "--only", "*.pth").code == 2


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
