"""Decisions: what the engine makes of a job, in codes, as a test waits for it and reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tao_sdk.client import Client
from tao_sdk.engine.watch import Watcher
from tao_sdk.model.errors import TaoError
from tao_sdk.model.job import Job
from tao_sdk.model.status import Status

PATIENCE = 150.0  # seconds


class Failing:
    """The real backend, one verb of which always fails."""

    def __init__(self, backend: Any, verb: str, error: TaoError) -> None:
        self._backend, self._verb, self._error = backend, verb, error

    def __getattr__(self, name: str) -> Any:
        return self._fail if name == self._verb else getattr(self._backend, name)

    def _fail(self, *arguments: Any) -> Any:
        raise self._error


def fail_from_now_on(client: Client, job: Job, verb: str, error: TaoError) -> Callable[[], None]:
    """Let a verb of the job's backend fail. What is returned undoes that."""
    place = (job.platform, client.store.attempt(job.id).attempt.endpoint)
    real = client.engine.backend(*place)
    backends: dict[tuple[str, str], Any] = client.engine._backends  # pyright: ignore
    backends[place] = Failing(real, verb, error)
    return lambda: backends.update({place: real})


def wait_until(client: Client, job: Job, when: Callable[[Job], bool]) -> Job:
    """The job at the first look at which this is so."""
    give_up = time.monotonic() + PATIENCE
    while not when(now := client.get_job(job.id)):
        assert time.monotonic() < give_up, now
        time.sleep(0.05)
    return now


def has_ended(job: Job) -> bool:
    return job.status.terminal


def is_running(job: Job) -> bool:
    return job.status is Status.RUNNING


def waits_for_next_attempt(job: Job) -> bool:
    return job.waits_for_next_attempt


def explained(client: Client, job: Job) -> tuple[str, bool]:
    """The rule that explains the job, and whether trying again helps."""
    diagnosis = client.diagnose(job.id)
    assert diagnosis is not None
    return diagnosis.rule, diagnosis.retryable


def watch(client: Client) -> None:
    """Run a watcher until no job is left to watch."""
    watcher = Watcher(client.engine)
    give_up = threading.Timer(PATIENCE, watcher.stop.set)
    give_up.start()
    watcher.run()
    give_up.cancel()
