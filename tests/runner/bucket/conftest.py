"""Buckets of real servers that a job sends its results to."""

from __future__ import annotations

import pytest

from support import marks
from support.bucket_jobs import Store
from support.servers import link_here, s3_here


def pytest_itemcollected(item: pytest.Item) -> None:
    marks.mark_by_fixtures(item, "network", {"store", "minio", "line", "minio_line"})


@pytest.fixture(params=["versitygw", "minio"])
def store(request, jobs):
    jobs.env["TAO_LOCAL_ROOT"] = str(jobs.root)
    return Store(s3_here.SERVERS[request.param]())


@pytest.fixture
def minio(jobs):
    jobs.env["TAO_LOCAL_ROOT"] = str(jobs.root)
    return Store(s3_here.minio())


@pytest.fixture
def line(jobs):
    """A bucket behind a line that fails on demand."""
    jobs.env["TAO_LOCAL_ROOT"] = str(jobs.root)
    server = s3_here.versitygw()
    with link_here.Link(server.address) as link:
        store = Store(server, link.url)
        store.link = link
        yield store


@pytest.fixture
def minio_line(jobs):
    """A store that knows sessions, behind a line that fails on demand."""
    jobs.env["TAO_LOCAL_ROOT"] = str(jobs.root)
    server = s3_here.minio()
    with link_here.Link(server.address) as link:
        store = Store(server, link.url)
        store.link = link
        yield store
