"""Files of this machine, as a local job sees them: looked at, listed, read; absent and unreadable
are two answers.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tao_sdk.backends.this_machine import LocalFiles
from tao_sdk.model.errors import PathNotFound, Unreachable

FILES = LocalFiles()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a dir").mkdir()
    (tmp_path / "b ü.txt").write_bytes(b"0123456789")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "link").symlink_to("b ü.txt")
    return tmp_path


def test_a_folder_is_listed_with_links_followed_and_dangling_ones_kept(folder: Path) -> None:
    listed = {Path(each.path).name: (each.is_dir, each.size) for each in FILES.list(str(folder))}
    assert listed == {
        "a dir": (True, 0),
        "b ü.txt": (False, 10),
        "dangling": (False, 7),
        "link": (False, 10),
    }
    assert FILES.list(str(folder / "a dir")) == []


def test_a_file_lists_as_itself(folder: Path) -> None:
    path = str(folder / "link")
    assert FILES.list(path) == [FILES.stat(path)]
    assert FILES.stat(path).mtime == (folder / "b ü.txt").stat().st_mtime


def test_an_address_is_the_same_as_its_path(folder: Path) -> None:
    assert FILES.stat(f"file://{folder}/b ü.txt") == FILES.stat(f"{folder}/b ü.txt")


def test_any_part_of_a_file_can_be_read(folder: Path) -> None:
    path = str(folder / "b ü.txt")
    assert FILES.read(path) == b"0123456789"
    assert FILES.read(path, 3, 4) == b"3456"
    assert FILES.read(path, 8, 100) == b"89"
    assert FILES.read(path, 100) == b""


@pytest.mark.parametrize("verb", [FILES.stat, FILES.list, FILES.read])
def test_what_is_not_there_is_not_found(folder: Path, verb: object) -> None:
    for path in ("missing", "dangling", "b ü.txt/below"):
        with pytest.raises(PathNotFound, match="There is nothing at"):
            verb(str(folder / path))  # type: ignore[operator]


def test_what_cannot_be_looked_at_is_out_of_reach_not_absent(folder: Path) -> None:
    with pytest.raises(Unreachable, match="Is a directory"):
        FILES.read(str(folder))
    with pytest.raises(Unreachable, match="Too many levels"):
        (folder / "loop").symlink_to("loop")
        FILES.stat(str(folder / "loop"))


def test_what_is_no_file_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(PathNotFound, match="a pipe"):
        FILES.read(str(folder / "pipe"))


def test_a_link_to_itself_spoils_no_list_and_one_to_a_folder_says_where_it_leads(
    folder: Path,
) -> None:
    (folder / "loop").symlink_to("loop")
    (folder / "to a dir").symlink_to("a dir")
    listed = {Path(each.path).name: each for each in FILES.list(str(folder))}
    assert not listed["loop"].is_dir
    assert listed["to a dir"].leads_to == str((folder / "a dir").resolve())
