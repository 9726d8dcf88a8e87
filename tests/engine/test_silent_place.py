"""A Docker daemon that takes connections and says nothing: nobody waits long for its jobs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.servers.silent_server import Silent, silent_server
from support.waiting import until
from tao_sdk.backends.asking import ask_side_by_side
from tao_sdk.client import Client
from tao_sdk.model.errors import Unreachable, WaitTimeout
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.transports import dockerd

LONG = 600.0  # seconds: nobody waits for them but a test that has failed


@pytest.fixture
def silent() -> Iterator[Silent]:
    with silent_server() as server:
        yield server


@pytest.fixture
def settings(silent: Silent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.chdir(tmp_path)
    return Settings(
        {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
            "DOCKER_HOST": f"tcp://{silent.address}",
        }
    )


def add_running(client: Client, job_id: str) -> str:
    """A job that was seen to run on the daemon, once."""
    endpoint = client.engine.backend("docker").endpoint
    attempt = Attempt(job_id, 1, "docker", endpoint, client.store.store_id)
    job = Job(id=job_id, name=job_id, platform="docker", status=Status.RUNNING)
    client.store.add(job, AttemptRow(attempt, {"request": {}}))
    client.store.confirm(Ref("docker", endpoint, "", f"tao-job-{job_id}", "c" * 64, attempt))
    return job_id


def until_returned(act: threading.Thread) -> None:
    act.start()
    until(lambda: not act.is_alive())


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon is waited for as long as a failed test lasts."""
    monkeypatch.setattr(dockerd, "PATIENCE", LONG)
    monkeypatch.setattr(dockerd, "TIMEOUT", LONG)


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_a_wait_ends_when_its_time_is_up_and_says_who_did_not_answer(
    settings: Settings, silent: Silent
) -> None:
    told: list[WaitTimeout] = []
    with Client(settings=settings) as client:
        job = add_running(client, "one-aaaaaaaaaa")

        def wait() -> None:
            with pytest.raises(WaitTimeout) as timeout:
                client.wait(job, timeout=0.5)
            told.append(timeout.value)

        until_returned(threading.Thread(target=wait, daemon=True))
    assert "(Running)" in told[0].what
    assert (
        f"Not seen now: The Docker daemon at tcp://{silent.address} does not answer" in told[0].why
    )


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_a_client_closes_while_its_watch_waits_for_a_silent_daemon(
    settings: Settings, silent: Silent
) -> None:
    with Client(settings=settings) as client:
        add_running(client, "one-aaaaaaaaaa")
    watching = Client(settings=settings, watch=True)
    local = watching.submit(JobSpec(command="true", gpu_count=0), "local").job.id
    assert watching.wait(local).status is Status.COMPLETE
    until(lambda: silent.taken)
    until_returned(threading.Thread(target=watching.close, daemon=True))


@pytest.mark.slow
def test_a_list_and_a_reason_wait_for_a_silent_daemon_once(
    settings: Settings, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dockerd, "PATIENCE", 0.3)
    monkeypatch.setattr(dockerd, "PING_SECONDS", 0.3)
    with Client(settings=settings) as client:
        for name in ("one-aaaaaaaaaa", "two-bbbbbbbbbb"):
            add_running(client, name)
        listed = client.list_jobs()
        assert {job.status for job in listed} == {Status.RUNNING}
        assert all("does not answer" in job.message for job in listed)
        client.diagnose("one")
        client.activity("one")
        with pytest.raises(Unreachable, match="does not answer"):
            client.get_job_logs("one")
        assert len(silent.taken) == 2  # one question and one ping


def test_ctrl_c_ends_a_look_that_waits_for_silent_places() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    both_wait = threading.Barrier(2)
    never = threading.Event()

    def ask(place: int) -> None:
        both_wait.wait()
        if place == 0:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        never.wait(LONG)

    try:
        with pytest.raises(KeyboardInterrupt):
            ask_side_by_side(ask, [0, 1])
    finally:
        never.set()
        signal.signal(signal.SIGINT, before)
