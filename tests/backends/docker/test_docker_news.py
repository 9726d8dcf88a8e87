"""News of containers: the daemon's events, heard once for all who listen, and never missed."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from pathlib import Path

from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import BUSYBOX, Daemon
from support.machine import until
from tao_sdk.backends.docker.backend import DockerBackend
from tao_sdk.client import Client
from tao_sdk.model.plan import Ref
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


def running(client: Client, command: str = "sleep 300") -> tuple[DockerBackend, Ref]:
    spec = JobSpec(image=BUSYBOX, command=command, gpu_count=0)
    job = client.submit(spec, "docker").job
    dockerd_here.until(lambda: client.get_job(job.id).status is Status.RUNNING)
    ref, backend = client.engine.ref_of(job), client.engine.backend_of(job)
    assert ref is not None
    assert isinstance(backend, DockerBackend)
    return backend, ref


def opened(surroundings: dict[str, str], there: Daemon) -> Client:
    environ = {**surroundings, "DOCKER_HOST": there.host, "DOCKER_NETWORK": "none"}
    return Client(settings=Settings(environ))


def listeners() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "tao-events"]


def test_one_thread_hears_the_daemon_for_all_who_listen(client: Client) -> None:
    before = len(listeners())
    backend, ref = running(client)
    with ExitStack() as stack:
        news = [stack.enter_context(closing(backend.news())) for _ in range(3)]
        assert all(list(one.changed([ref], 0)) == [ref] for one in news)
        assert len(listeners()) == before + 1
        client.cancel_job(ref.attempt.job_id, grace=0)
        for one in news:
            until(lambda one=one: ref in one.changed([ref], 1.0))
            assert one.changed([ref], 0.1) == []


def test_a_look_at_the_news_of_an_end_sees_the_end(client: Client, here: Daemon) -> None:
    """The daemon tells of an end before its list of containers has it."""
    backend, ref = running(client, "until [ -e /over ]; do sleep 0.1; done")
    with closing(backend.news()) as news:
        until(lambda: news.tells and not news.changed([ref], 0))
        here.docker("exec", ref.unique_id, "touch", "/over")
        assert list(news.changed([ref], 60)) == [ref]
        assert backend.observe([ref])[ref].phase.ended


def test_an_end_just_before_somebody_listened_is_news(client: Client, here: Daemon) -> None:
    backend, ref = running(client, "until [ -e /over ]; do sleep 0.1; done")
    here.docker("exec", ref.unique_id, "touch", "/over")
    here.docker("wait", ref.unique_id)
    with closing(backend.news()):  # the next look inspects it, whatever the list says
        until(lambda: backend.events.take_unseen([ref.unique_id]))


def test_who_is_closed_hears_nothing_any_more(client: Client) -> None:
    before = len(listeners())
    backend, ref = running(client)
    client.cancel_job(ref.attempt.job_id, grace=0)
    with closing(backend.news()) as news:
        until(lambda: news.tells)
    backend.close()
    until(lambda: len(listeners()) == before)


def test_a_daemon_that_goes_away_tells_nothing_and_all_may_have_changed_when_it_is_back(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    with dockerd_here.apart(tmp_path / "data") as there, opened(surroundings, there) as client:
        backend, ref = running(client)
        with closing(backend.news()) as news:
            until(lambda: news.tells and not news.changed([ref], 0))
            there.stop()
            until(lambda: not news.tells)
            assert list(news.changed([ref], 0)) == [ref]
            there.start()
            until(lambda: news.events.begin() or news.tells)
            assert list(news.changed([ref], 0)) == [ref]
            assert list(news.changed([ref], 0)) == []
