"""Results of a job, seen from this machine: nothing that a job plants leads out of them, or keeps a
look waiting.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tao_sdk.backends.below import Below, LeadsOut
from tao_sdk.backends.this_machine import LocalFiles, ResultFiles
from tao_sdk.model.errors import PathNotFound


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Results with a file, and a secret beside them."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("mine")
    found = tmp_path / "runs" / "job"
    (found / "train").mkdir(parents=True)
    (found / "train" / "epoch_1.pth").write_bytes(b"weights")
    return found


def files(results: Path) -> ResultFiles:
    found = LocalFiles().below(str(results))
    assert isinstance(found, ResultFiles)
    return found


@pytest.mark.parametrize(
    "target", ["../../secret/key", "/etc/hostname", "train/../../../secret/key", "up/../key"]
)
def test_a_link_that_leads_out_is_listed_as_itself_and_never_read(
    results: Path, target: str
) -> None:
    (results / "up").symlink_to("../../secret")
    (results / "model.pth").symlink_to(target)
    listed = {each.path: each for each in files(results).list(str(results))}
    assert listed[f"{results}/model.pth"].size == len(target)
    assert not listed[f"{results}/up"].is_dir
    for verb in (files(results).read, files(results).stat, files(results).list):
        with pytest.raises(LeadsOut, match="leads out"):
            verb(f"{results}/model.pth")


def test_a_folder_on_the_way_that_is_a_link_out_is_not_entered(results: Path) -> None:
    (results / "deep").symlink_to("../../secret")
    with pytest.raises(LeadsOut):
        files(results).read(f"{results}/deep/key")


def test_results_that_are_a_link_themselves_are_not_looked_into(
    results: Path, tmp_path: Path
) -> None:
    other = results.with_name("other")
    other.symlink_to(tmp_path / "secret")
    with pytest.raises(LeadsOut, match="is a link"):
        files(other).list(str(other))
    with pytest.raises(LeadsOut, match="is a link"):
        Below(str(other)).create("curve.svg", b"x")


@pytest.mark.parametrize("target", ["epoch_1.pth", "../train/epoch_1.pth", "{}/train/epoch_1.pth"])
def test_a_link_within_the_results_is_what_it_leads_to(results: Path, target: str) -> None:
    (results / "train" / "latest.pth").symlink_to(target.format(results))
    (results / "again").symlink_to("train")
    assert files(results).read(f"{results}/again/latest.pth") == b"weights"
    assert files(results).stat(f"{results}/train/latest.pth").size == 7
    listed = {each.path: each for each in files(results).list(str(results))}
    assert listed[f"{results}/again"].leads_to == f"{results}/train"


def test_results_below_a_link_of_the_users_own_are_seen(results: Path, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to("runs")
    (results / "all").symlink_to(results / "train")
    there = tmp_path / "here" / "job"
    assert files(there).read(f"{there}/train/epoch_1.pth") == b"weights"
    assert files(there).read(f"{there}/all/epoch_1.pth") == b"weights"


def test_a_pipe_a_device_and_a_circle_are_not_waited_for(results: Path) -> None:
    os.mkfifo(results / "pipe")
    (results / "null").symlink_to("/dev/zero")
    (results / "loop").symlink_to("loop")
    assert len(files(results).list(str(results))) == 4
    with pytest.raises(PathNotFound, match="a pipe"):
        files(results).read(f"{results}/pipe")
    with pytest.raises(LeadsOut):
        files(results).read(f"{results}/null")
    with pytest.raises(PathNotFound, match="back to itself"):
        files(results).read(f"{results}/loop")


def test_any_part_of_a_file_can_be_read_and_what_is_not_there_is_told(results: Path) -> None:
    path = f"{results}/train/epoch_1.pth"
    assert files(results).read(path, 2, 3) == b"igh"
    assert files(results).list(path) == [files(results).stat(path)]
    for name in ("none", "train/epoch_1.pth/below", "none/below"):
        with pytest.raises(PathNotFound, match="There is nothing"):
            files(results).read(f"{results}/{name}")


def test_a_copy_is_written_through_no_link_that_leads_out(results: Path, tmp_path: Path) -> None:
    (results / "out").symlink_to(tmp_path / "secret")
    (results / "curve.svg").symlink_to(tmp_path / "secret" / "key")
    below = Below(str(results), follow=True)
    with pytest.raises(LeadsOut), below.creating("out/key", ".part"):
        pass
    with pytest.raises(FileExistsError):
        below.create("curve.svg", b"x")
    with below.creating("curve.svg", ".part") as file:
        file.write(b"new")
    assert (results / "curve.svg").read_bytes() == b"new"
    assert not (results / "curve.svg").is_symlink()
    assert (tmp_path / "secret" / "key").read_text() == "mine"
