"""What the store promises of one job: kept as given, changed only by who has seen its newest state,
final when ended.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.store_jobs import add, ref, row
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import JobNotFound, StoreError, UsageError
from tao_sdk.model.job import Job
from tao_sdk.model.log_reading import LogReading
from tao_sdk.model.plan import Plan, StagedFile
from tao_sdk.model.progress import Progress
from tao_sdk.model.status import TERMINAL, Status
from tao_sdk.store import NewEvent, Store

ENDED = sorted(TERMINAL)


def test_a_job_comes_back_as_it_was_added(store: Store) -> None:
    moment = utc_now()
    job = Job(
        "digits-a1", "digits", "slurm", Status.RUNNING, "on node-3", 1, 3, "python:3.11", 4,
        {"team": "vision"}, "digits-a0",
        LogReading(Progress(3, metrics={"loss": 0.25}), attempt=1, rest=b"epo"), moment, moment,
        moment, moment,
        "/results/digits-a1", {"slurm_job_id": 1812},
        {"command": "train", "specs": {"a": [1, 2]}}, {"partition": "gpu"}, True, 1,
        endpoint="host-1",
    )  # fmt: skip
    assert store.add(job, row(store, job.id)) == job
    assert store.get(job.id) == job


@pytest.mark.slow
def test_the_newest_attempts_of_many_jobs_come_at_once(store: Store) -> None:
    jobs = [
        store.add(Job(f"many-{n}", "many", "local"), row(store, f"many-{n}")) for n in range(1200)
    ]
    newer = replace(row(store, "many-7"), attempt=replace(row(store, "many-7").attempt, number=2))
    assert store.add_attempt(replace(jobs[7], attempt=2), newer)
    found = store.newest_attempts([*(job.id for job in jobs), "nobodys"])
    assert len(found) == 1200
    assert {job_id for job_id, each in found.items() if each.attempt.number == 2} == {"many-7"}


def test_a_store_has_one_id_of_its_own(path: Path, tmp_path: Path) -> None:
    with (
        Store.open(path) as first,
        Store.open(path) as again,
        Store.open(tmp_path / "other" / "jobs.db") as other,
    ):
        assert first.store_id == again.store_id != other.store_id


def test_what_was_kept_is_there_when_the_store_is_opened_again(path: Path) -> None:
    with Store.open(path) as store:
        job = add(store, "digits-a1")
        store.confirm(ref(row(store, job.id).attempt))
    with Store.open(path) as store:
        assert store.get("digits-a1") == job
        assert store.attempt("digits-a1").ref == ref(row(store, "digits-a1").attempt)


def test_a_second_job_of_the_same_id_is_refused_and_changes_nothing(store: Store) -> None:
    """The published store replaces the row, and a finished job is Pending again."""
    job = store.update(replace(add(store, "digits-a1"), status=Status.COMPLETE))
    with pytest.raises(StoreError, match="digits-a1 is in the store already"):
        add(store, "digits-a1", plan={"large": "x" * 100_000})
    assert [file for file in store.directory.rglob("*") if file.is_file()] == []
    assert store.get("digits-a1") == job
    assert len(store.events()) == 1


def test_every_part_of_a_job_that_can_change_is_written(store: Store) -> None:
    job = add(store, "digits-a1")
    changed = replace(
        job, status=Status.ERROR, message="killed", exit_code=137,
        reading=LogReading(Progress(epoch=2)), started=utc_now(),
        ended=utc_now(), seen_at=utc_now(), results_dir="/elsewhere", backend_details={"pid": 5},
        cancel_asked=True,
        absent_looks=2, attempt=1,
    )  # fmt: skip
    written = store.update(changed)
    assert written == replace(changed, revision=job.revision + 1)
    assert store.get(job.id) == written


def test_what_is_known_of_a_job_beside_its_details_is_written(store: Store) -> None:
    job = add(store, "digits-a1", results_at="there", backend_details={"pid": 5})
    written = store.update(replace(job, released=True, asked_retries=2))
    assert store.get(job.id) == written
    assert written is not None
    assert written.to_json()["backend_details"] == {
        "pid": 5,
        "released": True,
        "results_at": "there",
        "asked_retries": 2,
    }


def test_what_an_earlier_version_kept_among_the_details_is_read(
    store: Store, tmp_path: Path
) -> None:
    job = add(store, "digits-a1")
    kept = '{"pid": 1, "released": true, "results_at": "there", "asked_retries": 1}'
    with sqlite3.connect(next(tmp_path.rglob("*.db"))) as db:
        db.execute("UPDATE jobs SET backend_details = ?", (kept,))
    read = store.get(job.id)
    assert (read.released, read.results_at, read.asked_retries) == (True, "there", 1)
    assert read.backend_details == {"pid": 1}


def test_who_has_not_seen_the_newest_state_changes_nothing(store: Store) -> None:
    job = add(store, "digits-a1")
    first = store.update(replace(job, message="first"), [NewEvent(job.id, "note", raw="first")])
    assert (
        store.update(replace(job, message="second"), [NewEvent(job.id, "note", raw="second")])
        is None
    )
    assert store.get(job.id) == first
    assert [event.raw for event in store.events(job.id)] == ["", "first"]


def test_a_job_that_was_removed_meanwhile_is_not_written(store: Store) -> None:
    job = add(store, "digits-a1")
    store.remove(job.id)
    assert store.update(replace(job, message="late"), [NewEvent(job.id, "note")]) is None
    assert store.events() == []


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDED)
@pytest.mark.parametrize("after", list(Status))
def test_an_ended_job_keeps_its_status(store: Store, end: Status, after: Status) -> None:
    ended = store.update(replace(add(store, "digits-a1"), status=end))
    assert ended is not None
    written = store.update(replace(ended, status=after, reading=LogReading(Progress(epoch=20))))
    assert (written is not None) == (after is end), (
        "its progress may still be written, its status not changed"
    )
    assert store.get("digits-a1").status is end
    assert store.get("digits-a1").progress.epoch == (20 if after is end else 0)


@pytest.mark.slow
def test_no_order_of_writes_changes_an_end(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("ends") / "jobs.db"

    @settings(max_examples=50)
    @given(st.lists(st.sampled_from(list(Status)), min_size=1, max_size=12))
    def writes(statuses: list[Status]) -> None:
        with Store.open(path) as store:
            job = add(store, "digits-a1")
            for status in statuses:
                job = (
                    store.update(replace(job, status=status), [NewEvent(job.id, "status", status)])
                    or job
                )
            first_end = next((status for status in statuses if status.terminal), None)
            assert first_end is None or store.get(job.id).status is first_end
            told = [event.status for event in store.events(job.id)]
            assert [status for status in told if status and status.terminal][:2] in (
                [],
                [first_end],
                [first_end] * 2,
            )
            store.remove(job.id)

    writes()


def test_a_refused_job_leaves_nothing(store: Store, path: Path) -> None:
    job = add(store, "digits-a1", labels={"team": "vision"}, plan={"files": "x" * 100_000})
    store.keyring.save(job.id, {"NGC_KEY": "secret-value"})
    store.claim(job.id, "on_complete", "callback")
    store.remove(job.id)
    db = sqlite3.connect(path)
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    left = {name for name in tables if db.execute(f"SELECT count(*) FROM {name}").fetchone()[0]}
    assert left == {"meta", "sqlite_sequence"}
    assert [file for file in store.directory.rglob("*") if file.is_file()] == []


def test_a_number_of_an_event_is_never_given_twice(store: Store) -> None:
    """A reader who asks for what came after the newest event he knows must not miss any."""
    add(store, "digits-a1")
    newest = store.record([NewEvent("digits-a1", "note")])[0].seq
    store.remove("digits-a1")
    add(store, "digits-a2")
    assert [event.job_id for event in store.events(since=newest)] == ["digits-a2"]


def test_events_come_back_as_recorded_and_in_their_order(store: Store) -> None:
    add(store, "digits-a1")
    add(store, "digits-a2")
    given_events = [
        NewEvent("digits-a1", "status", Status.RUNNING, "R \udcff \0 é", {"epoch": 1}),
        NewEvent("digits-a2", "note", raw="words"),
        NewEvent("digits-a1", "progress", data={"loss": float("inf")}),
    ]
    recorded = store.record(given_events)
    assert store.record([]) == []
    assert store.events(since=2) == [replace(recorded[0], raw="R \\udcff \0 é"), *recorded[1:]]
    assert [event.kind for event in store.events("digits-a1")] == ["status", "status", "progress"]
    assert [event.seq for event in store.events("digits-a1", since=recorded[0].seq)] == [
        recorded[2].seq
    ]
    assert store.events("digits-a1", limit=1)[0].seq == 1
    assert store.events(limit=0) == []


def test_events_of_a_job_that_is_not_there_are_refused_together(store: Store) -> None:
    add(store, "digits-a1")
    with pytest.raises(JobNotFound, match="digits-a9"):
        store.record([NewEvent("digits-a1", "note"), NewEvent("digits-a9", "note")])
    assert len(store.events()) == 1


def test_a_further_attempt_is_kept_together_with_what_it_changes(store: Store) -> None:
    job = add(store, "digits-a1")
    second = row(store, job.id, 2, request="again")
    changed = store.add_attempt(replace(job, attempt=2), second, [NewEvent(job.id, "retry")])
    assert changed is not None and changed.attempt == 2
    assert store.attempt(job.id).plan == {"request": "again"}
    assert store.attempt(job.id, 1).plan == {"request": {"command": "true"}}
    assert [attempt.attempt.number for attempt in store.attempts(job.id)] == [1, 2]
    assert store.add_attempt(replace(job, attempt=2), row(store, job.id, 3)) is None, (
        "someone else acted first"
    )
    with pytest.raises(StoreError, match="attempt 2 already"):
        store.add_attempt(
            changed, row(store, job.id, 2, files="x" * 100_000), [NewEvent(job.id, "retry")]
        )
    assert [file for file in store.directory.rglob("*") if file.is_file()] == []
    assert store.get(job.id) == changed
    assert [event.kind for event in store.events(job.id)] == ["status", "retry"]


def test_where_an_attempt_lives_and_how_far_its_log_was_read_come_back(store: Store) -> None:
    attempt = row(store, add(store, "digits-a1").id).attempt
    store.confirm(ref(attempt))
    store.save_log_cursor(attempt, "4096:9")
    assert store.attempt("digits-a1").ref == ref(attempt)
    assert store.attempt("digits-a1").log_cursor == "4096:9"


def test_an_attempt_that_is_not_there_is_told(store: Store) -> None:
    add(store, "digits-a1")
    with pytest.raises(JobNotFound, match="no attempt 2"):
        store.attempt("digits-a1", 2)
    with pytest.raises(JobNotFound, match="digits-a9"):
        store.confirm(ref(row(store, "digits-a9").attempt))


@dataclass(frozen=True)
class Said:
    """The request of a backend that only says something."""

    command: str

    def to_json(self) -> dict[str, Any]:
        return {"command": self.command}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Said:
        return cls(data["command"])


def test_a_plan_is_read_back_whole_with_its_files(store: Store) -> None:
    attempt = row(store, "digits-a1").attempt
    files = (StagedFile("data.npz", bytes(range(256)) * 1000), StagedFile("train.py", b"print()"))
    plan = Plan(
        attempt,
        Said("python train.py"),
        files,
        ("NGC_KEY",),
        "/results",
        notes=("a note",),
        backend_details={"pid": 3},
    )
    add(store, "digits-a1", plan=plan.to_json())
    assert Plan.from_json(store.attempt("digits-a1").plan, attempt, Said.from_json) == plan


# Finding jobs


def test_a_job_is_found_by_its_id_its_name_and_the_start_of_its_id(store: Store) -> None:
    add(store, "digits-a1b2")
    add(store, "segformer-x9")
    for text in ("digits-a1b2", "digits", "digits-a", "dig"):
        assert store.resolve(text) == "digits-a1b2"
        assert store.get(text).id == "digits-a1b2"


def test_an_id_means_itself_although_others_begin_with_it(store: Store) -> None:
    add(store, "digits-a1", name="first")
    add(store, "digits-a1b", name="second")
    assert store.resolve("digits-a1") == "digits-a1"


def test_a_name_that_several_jobs_have_is_asked_back_for(store: Store) -> None:
    add(store, "digits-a1")
    add(store, "digits-a2")
    for text in ("digits", "digits-", "d"):
        with pytest.raises(UsageError, match="digits-a1"):
            store.resolve(text)


@pytest.mark.parametrize(
    "text", ["", "nothing", "%", "_", "digits-a1'; DROP TABLE jobs", "DIGITS-A1", "\U0010ffff"]
)
def test_what_names_no_job_is_not_found(store: Store, text: str) -> None:
    add(store, "digits-a1")
    for look in (store.resolve, store.get, store.attempt):
        with pytest.raises(JobNotFound):
            look(text)


def test_a_mistyped_id_is_answered_with_the_nearest(store: Store) -> None:
    add(store, "digits-a1b2c3")
    for text in ("digist-a1b2c3", "digts"):
        with pytest.raises(JobNotFound) as error:
            store.get(text)
        assert "digits-a1b2c3" in error.value.next


# One process acts


def test_a_lease_is_held_by_one_until_it_is_given_back(store: Store) -> None:
    assert store.acquire("watch", "a", 60)
    assert not store.acquire("watch", "b", 60)
    assert store.acquire("watch", "a", 60), "its holder may renew it"
    store.release_lease("watch", "b")
    assert not store.acquire("watch", "b", 60), "only its holder gives it back"
    store.release_lease("watch", "a")
    assert store.acquire("watch", "b", 60)


def test_a_lease_that_ran_out_is_taken_over(store: Store) -> None:
    assert store.acquire("watch", "a", 0)
    assert store.acquire("watch", "b", 60)
    assert not store.acquire("watch", "a", 60)


def test_a_clock_that_was_set_back_does_not_keep_a_lease_for_ever(store: Store, path: Path) -> None:
    assert store.acquire("watch", "dead", 60)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE leases SET taken = taken + 86400")
    assert store.acquire("watch", "b", 60)


def test_a_hook_is_claimed_once(path: Path) -> None:
    with Store.open(path) as one, Store.open(path) as other:
        add(one, "digits-a1")
        claims = [
            store.claim("digits-a1", "on_epoch_milestone", key)
            for key in ("10", "20")
            for store in (one, other)
        ]
    with Store.open(path) as later:
        assert not later.claim("digits-a1", "on_epoch_milestone", "10"), (
            "not even after everyone has left"
        )
        with pytest.raises(JobNotFound):
            later.claim("digits-a9", "on_complete", "")
    assert claims == [True, False, True, False]


def test_hooks_are_due_until_each_was_delivered(store: Store) -> None:
    for job_id in ("digits-a1", "digits-a2", "digits-a3"):
        add(store, job_id)
    due = store.record(
        [NewEvent(job_id, "hook-due") for job_id in ("digits-a1", "digits-a2", "digits-a1")]
    )
    twice = [NewEvent("digits-a1", "hook-done", data={"of": due[0].seq})] * 2
    store.record([*twice, NewEvent("digits-a2", "hook-done", data={"of": due[1].seq})])
    assert store.jobs_with_undelivered("hook-due", "hook-done") == ["digits-a1"]


# What is left over


def test_what_a_crash_left_behind_is_swept_and_what_is_needed_stays(store: Store) -> None:
    live = add(store, "digits-a1", plan={"files": "x" * 100_000})
    ended = store.update(replace(add(store, "digits-a2"), status=Status.COMPLETE))
    assert ended is not None
    (store.directory / "payloads" / ("0" * 64)).write_text("half")
    (store.directory / "payloads" / ".abc.123").write_text("half")
    for job_id in ("digits-a1", "digits-a2", "digits-gone"):
        store.keyring.save(job_id, {"NGC_KEY": "secret-value"})
        store.log_copies.append(row(store, job_id).attempt, b"log")
    store.sweep()
    assert store.attempt(live.id).plan["files"] == "x" * 100_000
    assert len(list((store.directory / "payloads").iterdir())) == 1
    assert store.log_copies.jobs() == ["digits-a1", "digits-a2"]
    assert store.keyring.load("digits-gone"), "a submit saves secrets before the job's row"
    store.keyring.forget_others({live.id}, grace=0)
    assert (
        store.keyring.load("digits-a1")
        and not store.keyring.load("digits-a2")
        and not store.keyring.load("digits-gone")
    )


def test_a_closed_store_says_so(path: Path) -> None:
    store = Store.open(path)
    store.close()
    with pytest.raises(StoreError, match="was closed"):
        store.list()


def test_a_job_is_shown_as_json_from_the_store(store: Store) -> None:
    job = add(
        store,
        "digits-a1",
        labels={"team": "vision"},
        reading=LogReading(Progress(epoch=1)),
        backend_details={"pid": 1},
    )
    assert json.loads(json.dumps(store.get(job.id).to_json())) == job.to_json()


@pytest.mark.parametrize("pattern", ["my*", "job-?", "job-[12]"])
def test_a_pattern_instead_of_a_job_is_told_what_names_jobs(store: Store, pattern: str) -> None:
    with pytest.raises(JobNotFound, match="by no pattern"):
        store.get(pattern)


@pytest.mark.parametrize("words", ["", "%", "_", "no such job", "\udcff", "\0"])
def test_what_cannot_be_the_name_of_a_job_is_not_found(store: Store, words: str) -> None:
    add(store, "digits-a1")
    with pytest.raises(JobNotFound):
        store.get(words)
