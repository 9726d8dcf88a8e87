"""Live jobs: read again only when they have changed, and never as they no longer are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from support.store_jobs import add
from tao_sdk.model.job import Job
from tao_sdk.model.status import Status
from tao_sdk.store import Store


@pytest.fixture
def other(store: Store, path: Path) -> Iterator[Store]:
    """The same store, as another process has it open."""
    with Store.open(path) as other:
        yield other


def live_ids(store: Store) -> list[str]:
    return [job.id for job in store.live_at(endpoint_of(store))]


def endpoint_of(store: Store) -> tuple[str, str]:
    (endpoint,) = store.live_endpoints()
    return endpoint


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """What is asked of the database meanwhile."""
    seen: list[str] = []
    with store._db.read() as db:  # pyright: ignore[reportPrivateUsage]
        db.set_trace_callback(seen.append)
        yield seen
        db.set_trace_callback(None)


def test_a_job_that_another_process_submits_is_seen(store: Store, other: Store) -> None:
    assert store.live_endpoints() == []
    add(other, "digits-001")
    assert live_ids(store) == ["digits-001"]
    add(other, "digits-002")
    assert live_ids(store) == ["digits-002", "digits-001"]


def test_a_change_by_another_process_is_seen(store: Store, other: Store) -> None:
    job = add(store, "digits-001")
    assert live_ids(store) == [job.id]
    other.update(replace(other.get(job.id), cancel_asked=True))
    (seen,) = store.live_at(endpoint_of(store))
    assert seen == store.get(job.id)
    assert seen.cancel_asked


def test_a_job_that_has_ended_or_was_removed_is_left_out(store: Store, other: Store) -> None:
    ended, removed, live = (add(store, f"digits-00{n}") for n in range(3))
    assert len(live_ids(store)) == 3
    other.update(replace(other.get(ended.id), status=Status.COMPLETE))
    other.remove(removed.id)
    assert live_ids(store) == [live.id]


def test_where_jobs_are_live_is_not_asked_again_while_nobody_writes(
    store: Store, other: Store
) -> None:
    job = add(store, "digits-001")
    endpoint = endpoint_of(store)
    with statements(store) as asked:
        assert endpoint_of(store) == endpoint
    assert not [sql for sql in asked if "SELECT" in sql]
    other.update(replace(other.get(job.id), status=Status.COMPLETE))
    assert store.live_endpoints() == []


def test_only_the_jobs_that_have_changed_are_read_again(store: Store, other: Store) -> None:
    jobs: list[Job] = [add(store, f"digits-00{n}") for n in range(3)]
    endpoint = endpoint_of(store)
    store.live_at(endpoint)
    other.update(replace(other.get(jobs[1].id), message="changed"))
    with statements(store) as asked:
        assert [job.message for job in store.live_at(endpoint)].count("changed") == 1
    (read,) = [sql for sql in asked if "spec" in sql]
    assert jobs[1].id in read
    assert jobs[0].id not in read
