"""Versions of the schema: an old store is brought up to date with all it holds, a newer one is left
alone.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from support.store_jobs import add, row
from tao_sdk.model.errors import StoreError
from tao_sdk.model.status import Status
from tao_sdk.store import Store, schema

RECORDED = sorted((Path(__file__).parent / "recorded").glob("version-*.sql"))


def restored(recorded: Path, path: Path) -> Path:
    path.parent.mkdir(mode=0o700)
    db = sqlite3.connect(path)
    db.executescript(recorded.read_text())
    db.close()
    return path


def shape(path: Path) -> set[tuple[str, str]]:
    db = sqlite3.connect(path)
    return {
        (name, " ".join(sql.split()))
        for name, sql in db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    }


def test_every_version_before_this_one_is_recorded() -> None:
    assert [path.stem for path in RECORDED] == [f"version-{n}" for n in range(1, schema.VERSION)]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.stem)
def test_an_old_store_is_brought_up_to_date(recorded: Path, path: Path, tmp_path: Path) -> None:
    Store.open(tmp_path / "new" / "jobs.db").close()
    Store.open(restored(recorded, path)).close()
    assert shape(path) == shape(tmp_path / "new" / "jobs.db")


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.stem)
def test_what_an_old_store_holds_is_still_there(recorded: Path, path: Path) -> None:
    with Store.open(restored(recorded, path)) as store:
        newest, running, ended = store.list()
        assert (newest.id, newest.parent, newest.labels) == (
            "segformer-0000000003",
            ended.id,
            {"team": "vision"},
        )
        assert (ended.status, ended.exit_code, ended.progress.epoch) == (Status.COMPLETE, 0, 1)
        assert (
            newest.spec["command"] == "python train.py"
            and newest.options["venv_path"] == "/opt/venv"
        )
        assert store.attempt(running.id).ref is not None and store.attempt(newest.id).ref is None
        assert [event.seq for event in store.events()] == list(range(1, 7))
        assert store.jobs_with_undelivered("hook-due", "hook-done") == [ended.id]
        assert not store.claim(ended.id, "on_error", "callback")
        assert store.update(replace(running, message="still here"))
        assert store.add_attempt(store.get(running.id), row(store, running.id, 2))


def test_an_update_that_fails_half_way_leaves_the_old_version(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(path) as store:
        add(store, "digits-a1")
    before = shape(path)
    broken = (*schema.STEPS, ("CREATE TABLE more (a)", "CREATE TABLE jobs (a)"))
    monkeypatch.setattr(schema, "STEPS", broken)
    monkeypatch.setattr(schema, "VERSION", len(broken))
    with pytest.raises(StoreError):
        Store.open(path)
    monkeypatch.undo()
    assert shape(path) == before
    with Store.open(path) as store:
        assert store.get("digits-a1").id == "digits-a1"


def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(path: Path) -> None:
    Store.open(path).close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    db.execute("CREATE TABLE of_the_future (a)")
    db.close()
    before = shape(path)
    with pytest.raises(StoreError, match="newer tao_sdk") as error:
        Store.open(path)
    assert "Upgrade nvidia-tao-sdk" in error.value.next
    assert shape(path) == before


def test_a_database_of_another_program_is_refused_and_left_as_it_is(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE jobs (id)")
    db.close()
    content = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store.open(path)
    assert path.read_bytes() == content
