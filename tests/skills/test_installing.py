"""The packaged bank as a folder of one's own; what is not ours stays as it is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tao_sdk.model.errors import UsageError
from tao_sdk.model.settings import Settings
from tao_sdk.skills import installing
from tao_sdk.skills.bank import PACKAGED, choose_bank
from tao_sdk.skills.errors import BankError
from tao_sdk.skills.installing import LIST, install_bank, install_for, write_tree
from tao_sdk.skills.names import load_named

FILES = {"versions.yaml": b"images: {}\n", "skills/a/SKILL.md": b"a", "scripts/run.py": b"#!x\n"}


def contents(folder: Path) -> dict[str, bytes]:
    """What is written of a folder: all but the list, and what Python compiles beside a script."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != LIST and path.suffix != ".pyc"
    }


def test_the_bank_is_written_to_the_usual_folder_and_used_from_then_on(settings: Settings) -> None:
    installed = install_bank(None, settings)
    assert installed.folder == settings.home / "tao-skills-external"
    bank = choose_bank(None, settings)
    assert bank.root == installed.folder
    assert load_named(bank, "dino").network_arch == "dino"
    assert contents(bank.root) == dict(installing.packaged_files())


def test_writing_it_again_changes_nothing(settings: Settings) -> None:
    install_bank(None, settings)
    again = install_bank(None, settings)
    assert (again.written, again.removed) == (0, 0)


def test_a_newer_bank_replaces_its_files_and_removes_what_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "bank"
    write_tree(FILES, folder, shared=False)
    newer = {"versions.yaml": b"images: {a: b}\n", "skills/b/SKILL.md": b"b"}
    installed = write_tree(newer, folder, shared=False)
    assert (installed.written, installed.removed) == (2, 2)
    assert contents(folder) == newer
    assert not (folder / "skills" / "a").exists()


def test_a_script_can_be_run(tmp_path: Path) -> None:
    write_tree(FILES, tmp_path / "bank", shared=False)
    assert os.access(tmp_path / "bank" / "scripts" / "run.py", os.X_OK)
    assert not os.access(tmp_path / "bank" / "versions.yaml", os.X_OK)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BankError, match="not ours to write into"):
        write_tree(FILES, tmp_path, shared=False)
    assert contents(tmp_path) == {"notes.txt": b"mine"}


def test_a_file_that_was_changed_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "bank"
    write_tree(FILES, folder, shared=False)
    (folder / "versions.yaml").write_text("images: {mine: x/y}\n")
    with pytest.raises(BankError, match="They would be lost") as told:
        write_tree({**FILES, "versions.yaml": b"new"}, folder, shared=False)
    assert "versions.yaml" in told.value.what
    assert (folder / "versions.yaml").read_text() == "images: {mine: x/y}\n"


def test_a_changed_file_that_is_gone_from_the_bank_stays(tmp_path: Path) -> None:
    folder = tmp_path / "bank"
    write_tree(FILES, folder, shared=False)
    (folder / "skills/a/SKILL.md").write_text("mine")
    write_tree({"versions.yaml": FILES["versions.yaml"]}, folder, shared=False)
    assert (folder / "skills/a/SKILL.md").read_text() == "mine"


@pytest.mark.parametrize("place", ["skills", "skills/a", "skills/a/SKILL.md"])
def test_a_link_in_the_way_is_not_written_through(tmp_path: Path, place: str) -> None:
    folder, other = tmp_path / "bank", tmp_path / "other"
    write_tree({"versions.yaml": b"1"}, folder, shared=False)
    other.mkdir()
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / place).symlink_to(other)
    with pytest.raises(BankError, match="not as tao skills install has written them"):
        write_tree(FILES, folder, shared=False)
    assert list(other.iterdir()) == []


@pytest.mark.parametrize(
    "listed",
    ["", "[]", '{"files": 1}', "[" * 100_000, '{"files": {"a": 1}'],
)
def test_a_list_that_is_not_ours_stops_before_anything_is_written(
    tmp_path: Path, listed: str
) -> None:
    (tmp_path / LIST).write_text(listed)
    with pytest.raises(BankError, match="is no list of installed files"):
        write_tree(FILES, tmp_path, shared=False)
    assert contents(tmp_path) == {}


def test_a_list_cannot_name_files_of_others_for_removal(tmp_path: Path) -> None:
    folder, other = tmp_path / "bank", tmp_path / "other.txt"
    write_tree(FILES, folder, shared=False)
    other.write_bytes(b"a")
    listed = json.loads((folder / LIST).read_text())
    listed["files"]["../other.txt"] = listed["files"]["skills/a/SKILL.md"]
    listed["files"][str(other)] = listed["files"]["skills/a/SKILL.md"]
    (folder / LIST).write_text(json.dumps(listed))
    write_tree(FILES, folder, shared=False)
    assert other.exists()


def test_the_package_does_not_write_over_itself(settings: Settings) -> None:
    with pytest.raises(BankError, match="this package's own"):
        install_bank(PACKAGED, settings)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BankError, match="cannot be written"):
        install_bank(tmp_path / "file" / "bank", settings)


def test_an_agent_gets_whole_skills_beside_those_that_it_has(settings: Settings) -> None:
    own = settings.home / ".claude" / "skills" / "mine" / "SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    installed = install_for("claude", settings)
    assert own.read_text() == "mine"
    texts = sorted(PACKAGED.rglob("SKILL.md"))
    assert {path.name for path in installed.folder.iterdir() if path.is_dir()} == {
        "mine",
        *(text.parent.name for text in texts),
    }
    for text in texts:
        assert contents(installed.folder / text.parent.name) == contents(text.parent)
    script = "tao-setup-nvidia-gpu-host/scripts/setup-nvidia-gpu-host.sh"
    assert os.access(installed.folder / script, os.X_OK)


def test_an_agents_own_file_beside_a_skill_is_not_written_over(settings: Settings) -> None:
    own = (
        settings.home / ".claude/skills/tao-setup-nvidia-gpu-host/scripts/setup-nvidia-gpu-host.sh"
    )
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    with pytest.raises(BankError, match="not as tao skills install has written them"):
        install_for("claude", settings)
    assert contents(settings.home) == {str(own.relative_to(settings.home)): b"mine"}


def test_an_unknown_agent_is_told_with_those_that_are_known(settings: Settings) -> None:
    with pytest.raises(UsageError, match="Known are: claude, codex"):
        install_for("nobody", settings)
