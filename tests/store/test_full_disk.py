"""A disk that is full: a clear error, nothing half done, and all is well again once
there is room.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.store_jobs import add, row
from tao_sdk.model.errors import StoreError
from tao_sdk.store import NewEvent, Store


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a file system of its own needs root, and leave to mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all that is left, to the last byte."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
    return path


def test_a_full_disk_is_told_and_nothing_is_half_written(small_disk: Path, journal: bool) -> None:
    with Store.open(small_disk / "jobs.db", wal=journal) as store:
        job = add(store, "digits-a1")
        kept = store.get(job.id), store.events()
        filler = fill(small_disk)
        with pytest.raises(StoreError, match="full|No space"):
            for _ in range(200):  # a journal may have some room left
                store.record([NewEvent(job.id, "note", raw="x" * 1000)] * 10)
        noted = len(store.events())
        with pytest.raises(StoreError, match="full|No space"):
            add(store, "digits-large", plan={"files": "x" * 100_000})
        with pytest.raises(StoreError, match="full|No space"):
            for n in range(200):
                add(store, f"digits-b{n}", plan={"files": "x" * 1000})
        with pytest.raises(StoreError):
            store.keyring.save("digits-a1", {"NGC_KEY": "secret-value" * 1000})
        assert (store.get(job.id), store.events()[: len(kept[1])]) == kept
        assert (noted - 1) % 10 == 0, "events that were recorded together are there together"
        assert [file for file in store.directory.rglob("*") if file.is_file()] == []
        whole = store.list()
        assert all(store.attempt(found.id) and store.events(found.id) for found in whole)
        filler.unlink()
        assert store.update(replace(store.get(job.id), message="room again"))
        assert add(store, "digits-c1", plan={"files": "x" * 100_000}).id == "digits-c1"


def test_a_full_disk_at_the_first_opening_is_told(small_disk: Path) -> None:
    (small_disk / "state").mkdir(mode=0o700)
    filler = fill(small_disk)
    with pytest.raises(StoreError, match="full|No space"):
        Store.open(small_disk / "state" / "jobs.db")
    filler.unlink()
    Store.open(small_disk / "state" / "jobs.db").close()


def test_the_jobs_of_a_full_disk_can_be_listed_by_several_and_written_once_there_is_room(
    small_disk: Path,
) -> None:
    path = small_disk / "jobs.db"
    with Store.open(path) as store:
        job = add(store, "digits-a1")
    filler = fill(small_disk)
    with Store.open(path) as one, Store.open(path) as other:
        for store in (one, other, one):
            assert [each.id for each in store.list()] == [job.id]
        with pytest.raises(StoreError, match="The disk is full"):
            one.update(replace(job, message="x" * 100_000))
        assert other.get(job.id) == job
        filler.unlink()
        assert one.update(replace(job, message="room again"))
        assert other.get(job.id).message == "room again"


LIMITED = """
import resource, sys
from pathlib import Path
from support.store_jobs import add
from tao_sdk.model.errors import StoreError
from tao_sdk.store import NewEvent, Store
with Store.open(Path(sys.argv[1])) as store:
    add(store, "digits-a1")
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    try:
        for n in range(10_000):
            store.record([NewEvent("digits-a1", "note", raw="x" * 1000)])
    except StoreError as error:
        print(error, len(store.events()) == n + 1)
"""


def test_a_limit_on_the_size_of_files_is_told_and_nothing_is_half_written(path: Path) -> None:
    run = [sys.executable, "-c", LIMITED, str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    assert "file size limit" in done.stdout
    assert done.stdout.endswith("True\n"), "what was told to be written is there, and no more"
    with Store.open(path) as store:
        assert {event.raw for event in store.events()} == {"", "x" * 1000}
        assert store.record(
            [NewEvent("digits-a1", "note", raw=row(store, "digits-a1").attempt.store_id)]
        )


def test_a_read_only_file_system_is_called_that(small_disk: Path) -> None:
    with Store.open(small_disk / "jobs.db") as store:
        add(store, "digits-a1")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StoreError, match="its file system is readonly") as error:
        Store.open(small_disk / "jobs.db")
    assert "TAO_SDK_STATE_DIR" in error.value.next
