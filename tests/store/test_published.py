"""A database of the published SDK: its jobs are taken over once, and it is never altered.

The database is made with the tables, columns and settings that the published SDK uses, by their
documented names.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.store_jobs import add
from tao_sdk.client import Client
from tao_sdk.model.errors import StoreError, UsageError
from tao_sdk.model.status import Status
from tao_sdk.store import Store, open_store, store_path

TABLES = """
CREATE TABLE jobs (
    job_id TEXT PRIMARY KEY, network_arch TEXT, action TEXT, workspace_id TEXT, backend_type TEXT, backend_job_id TEXT,
    status TEXT, parent_job_id TEXT REFERENCES jobs (job_id), image TEXT, specs TEXT, results_dir TEXT, local_results_dir TEXT,
    base_checkpoint TEXT, plan_id TEXT, step_id INTEGER, last_epoch INTEGER, instance_id TEXT, created_at TEXT, updated_at TEXT);
CREATE TABLE checkpoints (id INTEGER PRIMARY KEY, job_id TEXT REFERENCES jobs (job_id), path TEXT, epoch INTEGER, format TEXT,
    created_at TEXT);
"""
SPECS = '{"train": {"lr": 0.1}, "_tao_artifacts": {"version": 1}}'
ROWS = [
    # job_id, action, backend_type, status, parent_job_id, specs, last_epoch, created_at
    ("6b2f-first", "", "local-docker", "Complete", None, SPECS, 20, "2026-01-01T10:00:00+00:00"),
    ("6b2f-second", "train", "slurm", "Error", "6b2f-first", "{}", 0, "2026-01-02T10:00:00+00:00"),
    ("6b2f-third", "train", "k8s", "Canceling", None, None, None, "2026-01-03T10:00:00Z"),
    ("6b2f-fourth", "train", "brev", "Sleeping", None, "not json", None, "yesterday"),
]


def fill(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(TABLES)
    for job_id, action, backend, status, parent, specs, epoch, created in ROWS:
        db.execute(
            """INSERT INTO jobs VALUES (?, '', ?, 'ws', ?, 'native-1', ?, ?, 'nvcr.io/x:1', ?, '/results/1', '', '', '', 0, ?,
            '', ?, '2026-01-05T10:00:00+00:00')""",
            (job_id, action, backend, status, parent, specs, epoch, created),
        )
    db.commit()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def theirs(folder: Path) -> Path:
    path = folder / "tao_session_state.db"
    with closing(sqlite3.connect(path)) as db:
        fill(db)
    return path


@pytest.fixture
def theirs_in_use(folder: Path) -> Iterator[Path]:
    """The newest rows are in the journal only, as long as their process has the database open."""
    path = folder / "tao_session_state.db"
    with closing(sqlite3.connect(path)) as db:
        fill(db)
        yield path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and ".v8." not in path.name
    }


def opened(state_file: Path) -> Store:
    return Store.open(store_path(state_file, state_file.parent))


@pytest.mark.parametrize("named", ["tao_session_state.json", "tao_session_state.db"])
def test_its_jobs_are_taken_over_with_their_ids_and_statuses(theirs: Path, named: str) -> None:
    before = contents(theirs.parent)
    with opened(theirs.with_name(named)) as store:
        assert store.path == theirs.with_name("tao_session_state.v8.db")
        found = {job.id: job for job in store.list()}
        assert {job_id: (job.platform, job.status) for job_id, job in found.items()} == {
            "6b2f-first": ("docker", Status.COMPLETE),
            "6b2f-second": ("slurm", Status.ERROR),
            "6b2f-third": ("kubernetes", Status.RUNNING),
            "6b2f-fourth": ("brev", Status.UNKNOWN),
        }
        first = found["6b2f-first"]
        assert (first.image, first.results_dir, first.progress.epoch) == (
            "nvcr.io/x:1",
            "/results/1",
            20,
        )
        assert dict(first.spec) == {"image": "nvcr.io/x:1", "specs": {"train": {"lr": 0.1}}}
        assert first.backend_details["backend_job_id"] == "native-1"
        assert first.imported_from
        assert first.created.isoformat() == "2026-01-01T10:00:00+00:00" and first.ended is not None
        assert found["6b2f-second"].parent == "6b2f-first"
        assert found["6b2f-third"].cancel_asked and "Canceling" in found["6b2f-third"].message
        assert "Sleeping" in found["6b2f-fourth"].message
    assert contents(theirs.parent) == before


def test_rows_that_are_only_in_its_journal_are_taken_over_too(theirs_in_use: Path) -> None:
    before = contents(theirs_in_use.parent)
    with opened(theirs_in_use) as store:
        assert len(store.list()) == len(ROWS)
    assert contents(theirs_in_use.parent) == before


def test_they_are_taken_over_once(theirs: Path) -> None:
    with opened(theirs) as store:
        store.remove("6b2f-first")
        add(store, "digits-a1")
    with opened(theirs) as store:
        assert {job.id for job in store.list()} == {
            "6b2f-second",
            "6b2f-third",
            "6b2f-fourth",
            "digits-a1",
        }


def test_our_store_is_still_found_when_theirs_is_gone(theirs: Path) -> None:
    with opened(theirs) as store:
        add(store, "digits-a1")
    theirs.unlink()
    with opened(theirs) as store:
        assert store.get("digits-a1")


def test_jobs_that_only_they_can_watch_are_not_watched_by_us(theirs: Path) -> None:
    with opened(theirs) as store:
        assert store.live() == []
        assert store.attempts("6b2f-third") == []
        with pytest.raises(StoreError, match="started by the published SDK"):
            store.attempt("6b2f-third")


def test_a_store_of_ours_in_its_place_is_used_as_it_is(folder: Path) -> None:
    with opened(folder / "tao_session_state.json") as first:
        add(first, "digits-a1")
        with opened(folder / "tao_session_state.json") as store:
            assert store.path == folder / "tao_session_state.db"
            assert store.store_id == first.store_id


def test_what_lies_in_the_current_directory_is_not_picked_up(
    theirs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(theirs.parent)
    before = contents(theirs.parent)
    with open_store(None, tmp_path / "state") as store:
        assert store.path == tmp_path / "state" / "jobs.db"
        assert store.list() == []
    assert sorted(path.name for path in theirs.parent.iterdir()) == sorted(before)


def test_a_damaged_database_of_theirs_is_not_written_to(theirs: Path) -> None:
    theirs.write_bytes(theirs.read_bytes()[:5000] + b"\xff" * 2000)
    damaged = theirs.read_bytes()
    with pytest.raises(StoreError):
        opened(theirs)
    assert theirs.read_bytes() == damaged


@pytest.mark.parametrize(
    ("state_file", "expected"),
    [
        (None, "state/jobs.db"),
        ("", "state/jobs.db"),
        ("/data/run.json", "/data/run.db"),
        ("/data/run.db", "/data/run.db"),
        ("/data/run.2.json", "/data/run.2.db"),
        ("/data/run", "/data/run"),
        ("here.json", "cwd/here.db"),
        ("~/mine.json", "home/mine.db"),
    ],
)
def test_a_state_file_names_the_database(
    state_file: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert store_path(state_file, tmp_path / "state") == tmp_path / expected


def test_a_store_of_theirs_in_the_state_folder_is_taken_over_by_ours_beside_it(
    theirs: Path,
) -> None:
    before = contents(theirs.parent)
    with open_store(None, theirs.parent) as store:
        assert store.path == theirs.with_name("jobs.db")
        assert {job.id for job in store.list()} == {row[0] for row in ROWS}
        store.remove("6b2f-first")
    with open_store(None, theirs.parent) as store:
        assert "6b2f-first" not in {job.id for job in store.list()}
    assert contents(theirs.parent).items() >= before.items()


def test_a_damaged_store_of_theirs_keeps_nobody_from_ours(
    theirs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(theirs)) as db:
        db.executescript("UPDATE jobs SET created_at = X'00ff'")
    with open_store(None, theirs.parent) as store:
        assert store.list() == []
    assert "not taken over" in caplog.text


def test_a_live_job_of_theirs_can_be_forgotten(theirs: Path) -> None:
    with Client(theirs) as client:
        with pytest.raises(UsageError, match="tao rm --force 6b2f-third"):
            client.remove("6b2f-third")
        assert client.remove("6b2f-third", force=True) is False
        assert "6b2f-third" not in {job.id for job in client.list_jobs()}
        assert client.remove("6b2f-first") is True
