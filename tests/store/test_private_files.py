"""The store is its owner's alone, and is not led astray by what lies in its way."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from support.store_jobs import add, row
from tao_sdk.model.errors import StoreError
from tao_sdk.store import Store
from tao_sdk.store.location import open_store

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_nothing_of_the_store_can_be_read_by_others(path: Path) -> None:
    before = os.umask(0)
    try:
        with Store.open(path) as store:
            job = add(store, "digits-a1", plan={"files": "x" * 100_000})
            store.keyring.save(job.id, {"NGC_KEY": "secret-value"})
            store.log_copies.append(row(store, job.id).attempt, b"log")
            found = [path.parent, *path.parent.rglob("*")]
            modes = {file.name: mode(file) for file in found}
            wrong = {
                file.name
                for file in found
                if modes[file.name] != (0o700 if file.is_dir() else 0o600)
            }
    finally:
        os.umask(before)
    assert {
        "jobs.db",
        "jobs.db-wal",
        "jobs.db-shm",
        "secrets",
        "payloads",
        "logs",
        "jobs.db.d",
    } <= modes.keys()
    assert wrong == set()


def test_nobody_else_can_write_into_a_folder_that_was_made_above_the_store(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Store.open(tmp_path / "new" / "state" / "tao" / "jobs.db").close()
    finally:
        os.umask(before)
    assert {
        mode(tmp_path / "new"),
        mode(tmp_path / "new/state"),
        mode(tmp_path / "new/state/tao"),
    } == {0o700}


def test_a_database_that_others_could_read_is_closed_to_them(path: Path) -> None:
    Store.open(path).close()
    path.chmod(0o644)
    Store.open(path).close()
    assert mode(path) == 0o600


@pytest.mark.parametrize("bits", [0o020, 0o002])
def test_a_directory_that_others_can_write_to_is_refused(path: Path, bits: int) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o700 | bits)
    with pytest.raises(StoreError, match="can be written by other users") as error:
        Store.open(path)
    assert f"chmod go-w {path.parent}" in error.value.next


def test_nobody_is_told_to_close_a_directory_that_is_there_for_all(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o1777)
    with pytest.raises(StoreError, match="can be written by other users") as error:
        Store.open(path)
    assert "chmod" not in error.value.next
    assert f"such as {path.parent}/tao" in error.value.next


def test_a_symbolic_link_in_place_of_the_database_is_refused(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    (tmp_path / "elsewhere.db").touch()
    path.symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(StoreError, match="symbolic link"):
        Store.open(path)
    assert (tmp_path / "elsewhere.db").read_bytes() == b""


def test_a_symbolic_link_that_leads_nowhere_is_refused_too(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.symlink_to(tmp_path / "nowhere.db")
    with pytest.raises(StoreError, match="symbolic link"):
        Store.open(path)
    assert not (tmp_path / "nowhere.db").exists()


def test_a_symbolic_link_in_place_of_the_directory_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    path.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic link"):
        Store.open(path)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("folder", ["payloads", "secrets", "logs"])
def test_a_symbolic_link_in_place_of_a_folder_beside_the_database_is_refused(
    store: Store, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (store.directory / folder).symlink_to(tmp_path / "elsewhere")
    write = {
        "payloads": lambda: add(store, "digits-a1", plan={"files": "x" * 100_000}),
        "secrets": lambda: store.keyring.save("digits-a1", {"NGC_KEY": "secret-value"}),
        "logs": lambda: store.log_copies.append(row(store, "digits-a1").attempt, b"log"),
    }[folder]
    with pytest.raises(StoreError, match="symbolic link"):
        write()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert store.list() == []


@AS_ROOT
@pytest.mark.parametrize("what", ["directory", "database"])
def test_what_belongs_to_someone_else_is_refused(path: Path, what: str) -> None:
    Store.open(path).close()
    os.chown(path if what == "database" else path.parent, 12345, 12345)
    with pytest.raises(StoreError, match="belongs to user 12345"):
        Store.open(path)


def test_a_directory_in_place_of_the_database_is_refused(path: Path) -> None:
    path.mkdir(parents=True)
    path.parent.chmod(0o700)
    with pytest.raises(StoreError, match="not a regular file"):
        Store.open(path)


def test_a_file_in_place_of_the_directory_is_told(path: Path) -> None:
    path.parent.write_text("")
    with pytest.raises(StoreError, match="cannot be used"):
        Store.open(path)


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to look at" * 50, b"a few words"]
)
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(
    path: Path, content: bytes
) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="not a database"):
        Store.open(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("job_id", ["../../escape", "a/b", ".hidden", "", "a\0b"])
def test_an_id_that_could_climb_out_of_the_folder_is_refused(
    store: Store, job_id: str, tmp_path: Path
) -> None:
    with pytest.raises(StoreError):
        store.log_copies.append(row(store, job_id).attempt, b"log")
    if job_id:
        with pytest.raises(StoreError):
            store.keyring.save(job_id, {"NGC_KEY": "secret-value"})
    assert list(tmp_path.rglob("*escape*")) == []


@AS_ROOT
def test_a_store_below_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o755)
    os.chown(tmp_path / "theirs", 12345, 12345)
    with pytest.raises(StoreError, match=r"lies below .*theirs, which belongs to user 12345"):
        Store.open(tmp_path / "theirs" / "mine" / "jobs.db")
    assert not (tmp_path / "theirs" / "mine").exists()


def test_a_store_below_a_folder_in_which_everybody_renames_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open" / "mine").mkdir(parents=True, mode=0o700)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(StoreError, match="every user can rename") as error:
        Store.open(tmp_path / "open" / "mine" / "jobs.db")
    assert error.value.next == f"Run: chmod o-w {tmp_path}/open"
    (tmp_path / "link").symlink_to(tmp_path / "open" / "mine")
    with pytest.raises(StoreError, match="every user can rename"):
        Store.open(tmp_path / "link" / "deeper" / "jobs.db")


@pytest.mark.parametrize("mode", [0o1777, 0o2775, 0o755])
def test_a_store_below_a_sticky_folder_or_one_of_a_group_is_used(tmp_path: Path, mode: int) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    Store.open(tmp_path / "open" / "mine" / "jobs.db").close()


@AS_ROOT
def test_a_link_of_another_user_on_the_way_to_the_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    os.lchown(tmp_path / "link", 12345, 12345)
    with pytest.raises(StoreError, match="belongs to user 12345"):
        Store.open(tmp_path / "link" / "state" / "jobs.db")


def test_the_state_directory_is_looked_at_also_where_the_store_lies_elsewhere(
    tmp_path: Path,
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(StoreError, match="every user can rename"):
        open_store(tmp_path / "safe" / "jobs.db", tmp_path / "open" / "state")
