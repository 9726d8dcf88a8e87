"""Many processes and threads at once: no lost update, no "database is locked", and a readable store
whoever is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from support.store_jobs import add, ref, row
from support.waiting import until
from tao_sdk.model.errors import StoreError
from tao_sdk.model.log_reading import LogReading
from tao_sdk.model.progress import Progress
from tao_sdk.model.status import Status
from tao_sdk.store import NewEvent, Store, database

pytestmark = pytest.mark.slow
FORK = multiprocessing.get_context(
    "fork"
)  # nobody has opened a store yet when they fork, and it is fast
PATIENCE = 60.0
TURNS = 12


def in_processes(count: int, target: Callable[..., None], *arguments: object) -> None:
    """Run `target(number, *arguments)` in `count` processes at once; each must end well."""
    processes = [FORK.Process(target=target, args=(number, *arguments)) for number in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    assert codes == [0] * count


def open_together(number: int, folder: Path, wal: bool, barrier: Barrier) -> None:
    for turn in range(TURNS):
        barrier.wait(PATIENCE)
        with Store.open(folder / f"{turn}" / "jobs.db", wal=wal) as store:
            add(store, f"digits-{number}")


def test_eight_processes_that_open_a_new_store_at_once_all_get_it(
    tmp_path: Path, journal: bool
) -> None:
    in_processes(8, open_together, tmp_path, journal, FORK.Barrier(8))
    for turn in range(TURNS):
        with Store.open(tmp_path / f"{turn}" / "jobs.db", wal=journal) as store:
            assert {job.id for job in store.list()} == {f"digits-{n}" for n in range(8)}


def count_up(number: int, path: Path, wal: bool, times: int) -> None:
    with Store.open(path, wal=wal) as store:
        for _ in range(times):
            while True:
                job = store.get("digits-a1")
                counted = replace(job, reading=LogReading(Progress(epoch=job.progress.epoch + 1)))
                if store.update(counted, [NewEvent(job.id, "progress", data={"by": number})]):
                    break


def read_on(number: int, path: Path, wal: bool, until: int) -> None:
    """A client: events come in order, without a gap, and the job agrees with them."""
    seen: list[int] = []
    with Store.open(path, wal=wal) as store:
        while len(seen) < until:
            job = store.get("digits-a1")
            seen += [
                event.seq for event in store.events("digits-a1", since=seen[-1] if seen else 1)
            ]
            assert job.progress.epoch <= len(seen)
    assert seen == list(range(2, until + 2))


def work(number: int, path: Path, wal: bool, times: int) -> None:
    read_on(number, path, wal, 8 * times) if number >= 8 else count_up(number, path, wal, times)


def test_eight_writers_and_two_readers_lose_no_update(path: Path, journal: bool) -> None:
    times = 60 if journal else 15
    with Store.open(path, wal=journal) as store:
        add(store, "digits-a1")
        in_processes(10, work, path, journal, times)
        assert store.get("digits-a1").progress.epoch == 8 * times
        assert store.get("digits-a1").revision == 8 * times


def claim_all(number: int, path: Path, barrier: Barrier) -> None:
    with Store.open(path) as store:
        barrier.wait(PATIENCE)
        for turn in range(50):
            if store.claim("digits-a1", "on_epoch_milestone", str(turn)):
                store.record([NewEvent("digits-a1", "hook", data={"epoch": turn})])


def test_of_many_processes_one_fires_a_hook(path: Path) -> None:
    with Store.open(path) as store:
        add(store, "digits-a1")
    in_processes(4, claim_all, path, FORK.Barrier(4))
    with Store.open(path) as store:
        fired = [event.data["epoch"] for event in store.events("digits-a1") if event.kind == "hook"]
    assert sorted(fired) == list(range(50))


def take_turns(number: int, path: Path, barrier: Barrier) -> None:
    with Store.open(path) as store:
        barrier.wait(PATIENCE)
        for _ in range(25):
            while not store.acquire("watch", str(number), 60):
                time.sleep(0.001)
            job = store.get("digits-a1")
            assert store.update(replace(job, absent_looks=job.absent_looks + 1)), (
                "nobody else acts under the lease"
            )
            store.release_lease("watch", str(number))


def test_of_many_processes_one_at_a_time_holds_a_lease(path: Path) -> None:
    with Store.open(path) as store:
        add(store, "digits-a1")
    in_processes(4, take_turns, path, FORK.Barrier(4))
    with Store.open(path) as store:
        assert store.get("digits-a1").absent_looks == 100


def write_for_ever(path: Path, wal: bool) -> None:
    with Store.open(path, wal=wal) as store:
        for n in range(1_000_000):
            job = add(
                store, f"digits-{os.getpid()}-{n}", plan={"files": f"{os.getpid()}-{n}" * 20_000}
            )
            store.confirm(ref(row(store, job.id).attempt))
            job = store.update(
                replace(job, status=Status.COMPLETE), [NewEvent(job.id, "status", Status.COMPLETE)]
            )
            if n % 2:
                store.remove(f"digits-{os.getpid()}-{n}")


def has_jobs(path: Path, wal: bool) -> bool:
    with Store.open(path, wal=wal) as store:
        return bool(store.list())


def test_a_writer_that_is_killed_leaves_a_store_that_can_be_read(path: Path, journal: bool) -> None:
    chance = random.Random(8)
    for turn in range(8):
        writer = FORK.Process(target=write_for_ever, args=(path, journal))
        writer.start()
        if turn == 0:
            until(lambda: has_jobs(path, journal))
        time.sleep(chance.uniform(0.05, 0.25))
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join(PATIENCE)
    with Store.open(path, wal=journal) as store:
        jobs = store.list()
        assert jobs, "the writers were killed before they wrote anything"
        for job in jobs:
            assert store.attempt(job.id).plan["files"] == job.id.removeprefix("digits-") * 20_000
            statuses = [event.status for event in store.events(job.id)]
            assert statuses == (
                [Status.PENDING, Status.COMPLETE] if job.status.terminal else [Status.PENDING]
            )
        store.sweep()
        assert len(list((store.directory / "payloads").iterdir())) == len(jobs)
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_stopped_process_that_holds_no_lock_stops_nobody(path: Path) -> None:
    with Store.open(path) as store:
        add(store, "digits-a1")
    ready = FORK.Event()

    def idle() -> None:
        with Store.open(path) as store:
            store.list()
            ready.set()
            time.sleep(PATIENCE)

    process = FORK.Process(target=idle)
    process.start()
    assert ready.wait(PATIENCE) and process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        with Store.open(path) as store:
            assert store.update(replace(store.get("digits-a1"), message="written"))
    finally:
        process.kill()
        process.join(PATIENCE)


def hold(path: Path, seconds: float, held: threading.Event) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        held.set()
        time.sleep(seconds)
        db.execute("ROLLBACK")


@pytest.mark.slow
def test_a_writer_that_takes_longer_than_five_seconds_is_waited_for(
    store: Store, path: Path
) -> None:
    """SQLite's default patience, with which the published store fails in every call."""
    job = add(store, "digits-a1")
    held = threading.Event()
    holder = threading.Thread(target=hold, args=(path, 5.5, held))
    holder.start()
    held.wait(PATIENCE)
    assert store.update(replace(job, message="written at last"))
    holder.join(PATIENCE)


def test_a_database_that_is_never_let_go_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOCK_TIMEOUT", 0.2)
    held = threading.Event()
    with Store.open(path) as store:
        holder = threading.Thread(target=hold, args=(path, 2, held))
        holder.start()
        held.wait(PATIENCE)
        with pytest.raises(StoreError, match="Another process has kept it"):
            store.acquire("watch", "a", 60)
        assert store.list() == [], "reading goes on meanwhile"
        holder.join(PATIENCE)
        assert store.acquire("watch", "a", 60)


def test_a_store_is_used_from_many_threads(path: Path, journal: bool) -> None:
    failures: list[BaseException] = []
    with Store.open(path, wal=journal) as store:
        add(store, "digits-a1")

        def note(number: int) -> None:
            for _ in range(20):
                store.record([NewEvent("digits-a1", "note", data={"by": number})])
                store.list(limit=1)

        threading.excepthook, before = (
            lambda told: failures.append(told.exc_value or RuntimeError()),
            threading.excepthook,
        )
        try:
            threads = [threading.Thread(target=note, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
        finally:
            threading.excepthook = before
        assert failures == []
        assert len(store.events("digits-a1")) == 1 + 8 * 20


def test_a_store_that_was_open_before_a_fork_serves_parent_and_child(
    path: Path, journal: bool
) -> None:
    with Store.open(path, wal=journal) as store:
        add(store, "digits-a1")

        def note(by: str) -> None:
            for _ in range(50):
                store.record([NewEvent("digits-a1", "note", raw=by)])

        children = [FORK.Process(target=note, args=("child",)) for _ in range(2)]
        for child in children:
            child.start()
        note("parent")
        for child in children:
            child.join(PATIENCE)
        assert [child.exitcode for child in children] == [0, 0]
        assert (
            sorted(event.raw for event in store.events("digits-a1"))[1:]
            == ["child"] * 100 + ["parent"] * 50
        )
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("verb", ["add", "confirm", "claim", "add_attempt"])
def test_what_was_decided_is_on_disk_before_it_is_done(store: Store, verb: str) -> None:
    """SQLite syncs the journal at a commit when `synchronous` is FULL; what it was set to is read
    from its own trace.
    """
    job = add(store, "digits-a1")
    statements: list[str] = []
    with store._db.read() as db:  # pyright: ignore[reportPrivateUsage]
        db.set_trace_callback(statements.append)
    {
        "add": lambda: add(store, "digits-a2"),
        "confirm": lambda: store.confirm(ref(row(store, job.id).attempt)),
        "claim": lambda: store.claim(job.id, "on_complete", ""),
        "add_attempt": lambda: store.add_attempt(replace(job, attempt=2), row(store, job.id, 2)),
    }[verb]()
    store.record([NewEvent(job.id, "note")])
    settings = [words for words in statements if "synchronous" in words or words == "COMMIT"]
    assert settings == [
        "PRAGMA synchronous = FULL",
        "COMMIT",
        "PRAGMA synchronous = NORMAL",
        "COMMIT",
    ]
