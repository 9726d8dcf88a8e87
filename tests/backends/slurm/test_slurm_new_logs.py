"""What is new in many logs, by the script as a login node's shell runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tao_sdk.backends.slurm.logs import NEW_BYTES, Offsets, parse_new, read_new_script


def new(folders: list[Path], *offsets: Offsets, cut: int | None = None):
    ran = subprocess.run(
        ["sh", "-c", read_new_script([str(each) for each in folders], offsets)],
        capture_output=True,
        check=True,
    )
    return parse_new(ran.stdout[:cut], offsets)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "it's one", tmp_path / "two", tmp_path / "gone"]
    for folder in made[:2]:
        folder.mkdir()
    (made[0] / "main.out").write_bytes(b"epoch 1/9\n=== 1 whole 5 5\nepoch 2/")
    (made[0] / "main.err").write_bytes(b"warning\n")
    return made


def test_one_question_tells_what_is_new_in_each_log(folders: list[Path]) -> None:
    found = new(folders, Offsets(10, 0), Offsets(0, 0), Offsets(0, 0))
    assert (
        b"".join(chunk.data for chunk in found[0].chunks) == b"=== 1 whole 5 5\nwarning\nepoch 2/"
    )
    assert found[0].chunks[-1].cursor == "34:8"
    assert (found[0].whole, found[1].chunks, found[1].whole) == (True, (), True)
    assert 2 not in found


def test_of_a_long_log_a_piece_comes_and_the_next_question_goes_on(folders: list[Path]) -> None:
    log = b"".join(b"%d\n" % n for n in range(20_000))
    (folders[1] / "main.out").write_bytes(log)
    at, read = Offsets(0, 0), b""
    while True:
        found = new(folders[:2], Offsets(34, 8), at)[1]
        for chunk in found.chunks:
            read, at = read + chunk.data, Offsets(*map(int, chunk.cursor.split(":")))
        if found.whole:
            break
    assert read == log
    assert len(log) > NEW_BYTES


def test_an_answer_that_was_cut_off_tells_what_is_whole_in_it(folders: list[Path]) -> None:
    assert new(folders[:2], Offsets(0, 0), Offsets(0, 0), cut=20) == {}
