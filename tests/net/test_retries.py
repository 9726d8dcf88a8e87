"""Retries: how long a request is tried again, the pauses between tries, and what is told."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from support.servers import link_here, s3_here
from support.servers.fixed_answers import FixedAnswers
from support.servers.ports import free_port
from tao_sdk.net import retries
from tao_sdk.net.failure import Failure
from tao_sdk.net.web import Web


class Clock:
    """A time that only sleeping takes."""

    def __init__(self) -> None:
        self.now = 1.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(retries, "time", clock)
    return clock


def test_a_patience_that_is_no_number_counts_as_not_given():
    assert Web({"TAO_RETRY_SECONDS": "5m"}).patience == Web({}).patience
    assert Web({"TAO_RETRY_SECONDS": "0.5"}).patience == 0.5


@pytest.mark.network
def test_a_connection_that_broke_in_mid_answer_is_asked_again():
    minio = s3_here.minio()
    bucket = minio.bucket()
    minio.s3().put(bucket, "k", b"x" * 1000)
    with link_here.Link(minio.address) as link:
        link.faults(reset=2, cut_at=10, methods="GET")
        s3 = minio.s3(link.url)
        for _ in range(3):
            assert len(list(s3.list(bucket, ""))) == 1


def test_pauses_between_tries_grow_differ_from_anybody_elses_and_are_as_long_as_the_server_asks(
    monkeypatch,
):
    slept = []
    monkeypatch.setattr(
        retries, "time", SimpleNamespace(monotonic=time.monotonic, sleep=slept.append)
    )
    one, other = retries.Patience(300), retries.Patience(300)
    assert all(each.wait() for _ in range(8) for each in (one, other))
    ours, theirs = slept[::2], slept[1::2]
    assert ours != theirs
    assert max(ours[:3]) < min(ours[5:]) and max(ours) <= retries.LONGEST_PAUSE
    busy = FixedAnswers(
        b"HTTP/1.1 503 Slow Down\r\nretry-after: 20\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    )
    assert Web({}).ask("GET", busy.url).status == 200
    assert slept[-1] == 20
    assert not retries.Patience(1).wait(least=2)


def test_a_server_that_does_not_answer_is_told_of_once_while_it_is_waited_for(clock):
    told = []
    asking = Web({"TAO_RETRY_SECONDS": "3"})
    asking.tell = lambda event, **facts: told.append((event, facts))
    address = f"127.0.0.1:{free_port()}"
    for _ in range(2):
        with pytest.raises(Failure):
            asking.ask("GET", f"http://{address}/")
    assert told == [("waiting", {"host": address})]


def test_a_name_that_nobody_knows_is_told_soon(clock):
    """Long before the time is up that a server has which does not answer."""
    began = clock.now
    with pytest.raises(Failure) as failure:
        Web({}).ask("GET", "http://no-such-host.invalid/")
    assert failure.value.code == "web.dns"
    assert clock.now - began < retries.STRANGER / 2
