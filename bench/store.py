"""Store: what our job store costs over sqlite3 alone, which does the same on the same file with the
same durability.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from bench.figure import Figure, rate, ratio
from bench.folder import scratch
from bench.rivals import Rivals
from bench.rounds import interleaved, seconds_of
from bench.scale import Scale
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.log_reading import LogReading
from tao_sdk.model.plan import Attempt
from tao_sdk.model.progress import Progress
from tao_sdk.model.status import Status
from tao_sdk.store import NewEvent, Store
from tao_sdk.store.records import JOB_COLUMNS

WANTED = 20
NAMES = JOB_COLUMNS.split(", ")
OBJECTS, MOMENTS = (
    ("labels", "progress", "backend_details"),
    ("created", "started", "ended", "seen_at"),
)
LIST = f"SELECT {JOB_COLUMNS} FROM jobs ORDER BY number DESC LIMIT {WANTED}"
RECORD = "INSERT INTO events (job_id, time, kind, status, raw, data) VALUES (?, ?, ?, ?, ?, ?)"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
FACTS = {"epoch": 14, "loss": 0.0931}


def figures(scale: Scale, rivals: Rivals) -> Iterator[Figure]:  # noqa: ARG001  sqlite3 is the only rival
    with scratch() as folder, Store.open(folder / "store" / "jobs.db") as store:
        for number in range(scale.jobs):
            store.add(job(number), attempt(store, number))
        with connected(store.path) as raw:
            yield from listings(store, raw, scale)
            yield from recordings(store, raw, scale)


def listings(store: Store, raw: sqlite3.Connection, scale: Scale) -> Iterator[Figure]:
    contenders = {
        "ours": lambda: len(store.list(limit=WANTED)),
        "decoded": lambda: len([decoded(row) for row in raw.execute(LIST)]),
        "rows": lambda: len(raw.execute(LIST).fetchall()),
    }
    found = interleaved(
        {name: each(look, scale.looks) for name, look in contenders.items()},
        scale.rounds,
    )
    title = f"list {WANTED} of {scale.jobs:,} jobs"
    meaning = "Both decode the times and the JSON that a listing shows."
    yield ratio(
        "store.list", title, meaning, found["ours"], found["decoded"], "sqlite3, decoded by hand"
    )
    meaning = "What the records cost over the bare text of the database."
    yield ratio(
        "store.list.rows",
        f"{title}, over bare rows",
        meaning,
        found["ours"],
        found["rows"],
        "sqlite3, as text",
    )


def recordings(store: Store, raw: sqlite3.Connection, scale: Scale) -> Iterator[Figure]:
    newest = store.list(limit=1)[0].id
    found = interleaved(
        {
            "ours": each(
                lambda: store.record([NewEvent(newest, "progress", Status.RUNNING, "", FACTS)]),
                scale.events,
            ),
            "raw": each(lambda: record(raw, newest), scale.events),
        },
        scale.rounds,
    )
    meaning = (
        "Each event is a transaction of its own; it outlives the program at once, the machine a "
        "moment later (WAL)."
    )
    yield ratio("store.events", "record an event", meaning, found["ours"], found["raw"], "sqlite3")
    yield rate(
        "store.events.rate",
        "events per second",
        "Recorded one at a time, by one process.",
        found["ours"],
        1,
    )


def each(action: Callable[[], object], times: int) -> Callable[[], float]:
    """The seconds that one of so many takes."""

    def repeated() -> None:
        for _ in range(times):
            action()

    return lambda: seconds_of(repeated) / times


def connected(path: Path) -> sqlite3.Connection:
    """As durable as the store's own connection is: the file says which journal it has."""
    raw = sqlite3.connect(path, isolation_level=None)
    (journal,) = raw.execute("PRAGMA journal_mode").fetchone()
    raw.execute(f"PRAGMA synchronous = {'NORMAL' if journal == 'wal' else 'FULL'}")
    raw.execute("PRAGMA foreign_keys = ON")
    return raw


def decoded(row: tuple[Any, ...]) -> dict[str, Any]:
    values: dict[str, Any] = dict(zip(NAMES, row, strict=True))
    for name in OBJECTS:
        values[name] = json.loads(values[name])
    for name in MOMENTS:
        values[name] = datetime.fromisoformat(values[name])
    return values


def record(raw: sqlite3.Connection, job_id: str) -> None:
    now = datetime.now(timezone.utc).isoformat()
    raw.execute("BEGIN IMMEDIATE")
    raw.execute(RECORD, (job_id, now, "progress", Status.RUNNING.value, "", json.dumps(FACTS)))
    raw.execute("COMMIT")


def job(number: int) -> Job:
    """An ended training, as a store is full of them."""
    created = START + timedelta(minutes=number)
    return Job(
        id=job_id(number),
        name="train",
        platform="local",
        status=Status.COMPLETE,
        exit_code=0,
        image="registry.example.org/trainer:1.0",
        gpu_count=1,
        labels={"team": "vision", "sweep": str(number // 100)},
        reading=LogReading(Progress(20, 20, {"loss": 0.0931, "accuracy": 0.9572})),
        created=created,
        started=created + timedelta(seconds=2),
        ended=created + timedelta(minutes=50),
        seen_at=created + timedelta(minutes=50),
        results_dir=f"/results/{job_id(number)}",
        backend_details={"backend_type": "local", "pid": 4000 + number},
        spec={"command": "python train.py", "gpu_count": 1},
    )


def attempt(store: Store, number: int) -> AttemptRow:
    return AttemptRow(
        Attempt(job_id(number), 1, "local", "host", store.store_id),
        {"request": {"command": "true"}},
    )


def job_id(number: int) -> str:
    return f"train-{number:010d}"
