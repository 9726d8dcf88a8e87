"""A store with live jobs of the version before reasons were codes: it opens, and its jobs go on.

Recorded: a job that waits for its second attempt, one that could not be looked at, and one at its
time limit.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tao_sdk.client import Client
from tao_sdk.engine.watch import Watcher
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.reasons import Reason
from tao_sdk.model.settings import Settings
from tao_sdk.model.status import Status

RECORDED = Path(__file__).parents[1] / "store" / "recorded" / "live-jobs-2"


@pytest.fixture
def old_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of the recorded store and of the folders of its jobs, as if they had
    been made here.
    """
    monkeypatch.chdir(tmp_path)
    settings = Settings(
        {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
        }
    )
    with Client(settings=settings) as made:
        machine = made.engine.backend("local").endpoint
    restore(tmp_path, machine)
    with Client(settings=settings) as client:
        yield client


def restore(home: Path, machine: str) -> None:
    shutil.rmtree(home / "state")
    (home / "state").mkdir(mode=0o700)
    placed = [
        text.replace("@HOME@", str(home)).replace("@MACHINE@", machine) for text in recorded_texts()
    ]
    database = sqlite3.connect(home / "state" / "jobs.db")
    database.executescript(placed[0])
    database.close()
    (home / "state" / "jobs.db").chmod(0o600)
    for name, text in json.loads(placed[1]).items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(text)
        path.chmod(0o600)


def recorded_texts() -> list[str]:
    return [(RECORDED / name).read_text() for name in ("jobs.sql", "files.json")]


def stored(client: Client, name: str) -> Job:
    return client.get_job(client.store.resolve(name), look=False)


def test_the_reasons_of_old_jobs_are_known_by_their_messages(old_client: Client) -> None:
    waiting, unseen = stored(old_client, "lost"), stored(old_client, "unseen")
    assert (waiting.reason_code, waiting.waits_for_next_attempt) == (Reason.NEXT_ATTEMPT, True)
    assert (unseen.reason_code, unseen.waits_for_next_attempt) == (Reason.NOT_SEEN, False)
    assert stored(old_client, "late").reason_code is None


def test_the_next_attempt_of_an_old_job_is_due_a_while_after_it_was_seen_to_fail(
    old_client: Client,
) -> None:
    waiting = stored(old_client, "lost")
    assert waiting.next_attempt_at is not None and waiting.seen_at is not None
    after = waiting.next_attempt_at - waiting.seen_at
    assert abs(after - timedelta(seconds=5)) < timedelta(milliseconds=1)


@pytest.mark.slow
def test_an_old_job_that_waited_gets_its_next_attempt(old_client: Client) -> None:
    waiting = stored(old_client, "lost")
    Watcher(old_client.engine).run()
    ended = old_client.get_job(waiting.id)
    assert (ended.status, ended.attempt, ended.next_attempt_at) == (Status.COMPLETE, 2, None)


def test_an_old_job_that_could_not_be_seen_is_seen_again(old_client: Client) -> None:
    ended = old_client.get_job(stored(old_client, "unseen").id)
    assert (ended.status, ended.exit_code, ended.reason_code) == (Status.COMPLETE, 0, None)


def test_an_old_job_at_its_time_limit_ends_there_and_says_so(old_client: Client) -> None:
    ended = old_client.get_job(stored(old_client, "late").id)
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.TIME_LIMIT)
    diagnosis = old_client.diagnose(ended.id)
    assert diagnosis is not None and diagnosis.rule == "time_limit"


class Away:
    """The real backend, which cannot be asked how its jobs are."""

    def __init__(self, backend: object) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    def observe(self, refs: object) -> object:
        raise Unreachable("connection refused")


def test_a_job_that_waits_goes_on_waiting_while_it_cannot_be_seen(old_client: Client) -> None:
    waiting = stored(old_client, "lost")
    endpoint = old_client.store.attempt(waiting.id).attempt.endpoint
    real = old_client.engine.backend("local", endpoint)
    old_client.engine._backends["local", endpoint] = Away(real)  # pyright: ignore
    unseen = old_client.get_job(waiting.id)
    assert (unseen.reason_code, unseen.next_attempt_at) == (
        Reason.NOT_SEEN,
        waiting.next_attempt_at,
    )
    old_client.engine._backends["local", endpoint] = real  # pyright: ignore
    again = old_client.get_job(waiting.id)
    assert (again.reason_code, again.next_attempt_at) == (
        Reason.NEXT_ATTEMPT,
        waiting.next_attempt_at,
    )
