"""Finding jobs: the same answer as looking at every one, without looking at every one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.store_jobs import add
from tao_sdk.model.job import Job
from tao_sdk.model.status import Status
from tao_sdk.store import Store, listing
from tao_sdk.store.listing import Wanted

PLATFORMS = ["local", "docker", "slurm"]
STATUSES = st.lists(st.sampled_from(list(Status)), max_size=3)
LABELS = st.dictionaries(st.sampled_from(["team", "run"]), st.sampled_from(["1", "2"]), max_size=2)


@dataclass
class Filled:
    store: Store
    newest_first: list[Job]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with Store.open(tmp_path_factory.mktemp("filled") / "state" / "jobs.db") as store:
        jobs = [
            add(
                store,
                # ids are random: their order is not that of the jobs
                f"digits-{(n * 7919) % 100:03}",
                status=list(Status)[n % 5],
                platform=PLATFORMS[n % 3],
                labels={"team": str(n % 4), "run": str(n % 3)} if n % 2 else {"team": str(n % 4)},
                parent="digits-000" if n % 10 == 3 else None,
            )
            for n in range(100)
        ]
        yield Filled(store, jobs[::-1])


@pytest.mark.slow
@settings(max_examples=300)
@given(
    STATUSES, st.none() | st.sampled_from(PLATFORMS), LABELS, st.none() | st.just("digits-000"),
    st.none() | st.integers(0, 110),
)  # fmt: skip
def test_a_list_holds_what_matches_every_part_newest_first(
    filled: Filled,
    statuses: list[Status],
    platform: str | None,
    labels: dict[str, str],
    parent: str | None,
    limit: int | None,
) -> None:
    expected = [
        job
        for job in filled.newest_first
        if (not statuses or job.status in statuses)
        and platform in (None, job.platform)
        and labels.items() <= job.labels.items()
        and parent in (None, job.parent)
    ]
    found = filled.store.list(
        statuses=statuses,
        platform=platform,
        labels=labels,
        parent=parent,
        limit=limit,
    )
    assert found == expected[:limit]


def test_live_jobs_are_those_that_have_not_ended(filled: Filled) -> None:
    assert filled.store.live() == [job for job in filled.newest_first if not job.status.terminal]
    assert {job.platform for job in filled.store.live("slurm")} == {"slurm"}


def test_a_limit_of_nothing_lists_nothing(filled: Filled) -> None:
    assert filled.store.list(limit=0) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(limit=20),
        Wanted(limit=20),
        Wanted([Status.RUNNING], limit=20),
        Wanted([Status.RUNNING, Status.PENDING], "slurm", limit=20),
        Wanted(platform="slurm", limit=20),
        Wanted(labels={"team": "1"}, limit=20),
        Wanted(parent="digits-000", limit=20),
    ],
)
def test_a_short_list_of_many_jobs_reads_few_rows(wanted: Wanted, tmp_path: Path) -> None:
    """The work is counted in SQLite's own steps, so a busy machine changes nothing; a scan of the
    jobs takes 100,000.
    """
    with Store.open(tmp_path / "state" / "jobs.db"):
        db = sqlite3.connect(tmp_path / "state" / "jobs.db")
    with db:
        db.executemany(
            """INSERT INTO jobs SELECT ?, 'digits-' || ?, 'digits', ?, ?, '', 1, NULL, '', 0, '{}', ?, '{}',
            '2026-11-21T06:00:00+00:00', NULL, NULL, NULL, '', '{}', '[{},{}]', '[{},{}]', 0, 0, 0, NULL, NULL""",
            [
                (n, n, PLATFORMS[n % 3], list(Status)[n % 7], "digits-000" if n % 10 == 0 else None)
                for n in range(1, 10_001)
            ],
        )
        db.execute("INSERT INTO labels SELECT 'team', number % 4, number FROM jobs")
    query = listing.query(wanted)
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 100
        return 0

    db.set_progress_handler(count, 100)
    assert len(db.execute(query.sql, query.parameters).fetchall()) == 20
    assert steps < 10_000
