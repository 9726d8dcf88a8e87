"""A look: what could not be seen of one job says nothing of the others, and nothing false of this
one.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.waiting import LIMIT_SECONDS
from support.waiting import until as until_true
from tao_sdk.backends.contract import cancel_one
from tao_sdk.backends.news import NoNews
from tao_sdk.client import Client
from tao_sdk.engine import cancel
from tao_sdk.engine.look import judge, look
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import TaoError, Unreachable, WaitTimeout
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

SUPERVISOR_DIES = "kill -9 $PPID; sleep 0.1"


class Changed:
    """The real backend, one verb of which does something first."""

    def __init__(self, client: Client, job: str, verb: str, first: Callable[[], None]) -> None:
        endpoint = client.store.attempt(job).attempt.endpoint
        self._backend = client.engine.backend("local", endpoint)
        self._verb, self._first = verb, first
        client.engine._backends["local", endpoint] = self  # pyright: ignore

    def __getattr__(self, name: str) -> Any:
        if name == self._verb:
            self._first()
        return getattr(self._backend, name)


def cannot_be_asked() -> None:
    raise Unreachable("connection refused")


def run(client: Client, command: str, **more: Any) -> str:
    return client.submit(JobSpec(command=command, gpu_count=0, **more), "local").job.id


def until(client: Client, job: str, words: str) -> Job:
    give_up = time.monotonic() + LIMIT_SECONDS
    while words not in f"{(seen := client.get_job(job)).status} {seen.message}":
        assert time.monotonic() < give_up, f"never {words}: {seen.status} {seen.message}"
        time.sleep(0.05)
    return seen


def test_evidence_that_cannot_be_read_keeps_the_status_and_the_look_at_the_others(
    client: Client,
) -> None:
    failing = run(client, SUPERVISOR_DIES, retries=1)
    fine = run(client, "true")
    Changed(client, failing, "evidence", cannot_be_asked)
    until(client, failing, "not seen now: connection refused")
    until(client, fine, "Complete")
    assert {job.status.terminal for job in client.list_jobs()} == {True, False}


class Refuses:
    """The real backend, which refuses one verb for one job in words that nobody has foreseen, while
    it is `refusing`.
    """

    def __init__(self, client: Client, job: str, verb: str) -> None:
        endpoint = client.store.attempt(job).attempt.endpoint
        self._backend = client.engine.backend("local", endpoint)
        self._job, self._verb, self.refusing = job, verb, True
        client.engine._backends["local", endpoint] = self  # pyright: ignore

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._backend, name)
        return partial(self._asked, verb) if name == self._verb else verb

    def _asked(self, verb: Callable[..., Any], ref: Ref, *more: Any) -> Any:
        if self.refusing and ref.attempt.job_id == self._job:
            raise TaoError("it is marked for removal")
        return verb(ref, *more)


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "retries"), [("logs", 0), ("evidence", 1)])
def test_a_job_of_which_the_backend_refuses_something_is_the_only_one_that_is_not_judged(
    client: Client, verb: str, retries: int
) -> None:
    odd = run(client, SUPERVISOR_DIES, retries=retries)
    fine = run(client, "true")
    backend = Refuses(client, odd, verb)
    until(client, odd, "not seen now: it is marked for removal")
    until(client, fine, "Complete")
    assert {job.status.terminal for job in client.list_jobs()} == {True, False}
    backend.refusing = False
    until(client, odd, "waits for a watcher" if retries else "Error")


def test_a_job_of_which_no_evidence_is_to_be_had_ends_all_the_same(client: Client) -> None:
    job = run(client, "exit 3")
    Refuses(client, job, "evidence")
    assert until(client, job, "Error").exit_code == 3


def test_a_job_that_is_removed_while_others_are_looked_at_keeps_none_from_being_judged(
    client: Client,
) -> None:
    before, meanwhile, fine = (run(client, "true") for _ in range(3))
    jobs = [client.store.get(job) for job in (before, meanwhile, fine)]
    client.store.remove(before)
    Changed(client, fine, "observe", lambda: client.store.remove(meanwhile))
    assert [one.job.id for one in look(client.engine, jobs)] == [before, meanwhile, fine]
    until(client, fine, "Complete")
    assert [job.id for job in client.list_jobs()] == [fine]


@pytest.mark.parametrize("kind", [Unreachable, TaoError])
def test_an_endpoint_that_cannot_be_asked_at_all_keeps_every_status(
    client: Client, kind: type[TaoError]
) -> None:
    def cannot_be_asked() -> None:
        raise kind("connection refused")

    job = run(client, "true")
    Changed(client, job, "observe", cannot_be_asked)
    assert client.get_job(job).message == "not seen now: connection refused"


def test_jobs_of_a_platform_that_is_not_here_are_listed_as_they_were(client: Client) -> None:
    attempt = Attempt("far-0123456789", 1, "another", "there", client.store.store_id)
    client.store.add(Job(attempt.job_id, "far", "another"), AttemptRow(attempt, {}))
    here = run(client, "true")
    client.wait(here, timeout=300)
    assert [(job.id, job.status) for job in client.list_jobs()] == [
        (here, Status.COMPLETE),
        (attempt.job_id, Status.PENDING),
    ]


def test_a_cancel_that_comes_while_the_end_is_read_is_not_lost(client: Client) -> None:
    job = run(client, "echo epoch 1/1; exit 1")
    asked: list[Job] = []

    def ask_once() -> None:
        if not asked:
            asked.append(cancel.ask(client.engine, client.store.get(job)))

    Changed(client, job, "logs", ask_once)
    client.wait(job, timeout=300)
    assert asked[0].status is not Status.ERROR
    assert client.get_job(job).status is Status.CANCELED


class Costly:
    """The real backend, where looking is not cheap, what was listed is counted, and a job may be
    missing from a list.
    """

    def __init__(self, client: Client, job: str, **capabilities: float) -> None:
        endpoint = client.store.attempt(job).attempt.endpoint
        self._backend = client.engine.backend("local", endpoint)
        self.capabilities = replace(self._backend.capabilities, **capabilities)
        self.looks: list[int] = []
        self.missing = False
        self.hold: threading.Event | None = None
        client.engine._backends["local", endpoint] = self  # pyright: ignore

    def news(self) -> NoNews:
        return NoNews()

    def observe(self, refs: Any) -> Any:
        self.looks.append(len(refs))
        if self.hold is not None:
            assert self.hold.wait(120)
        return (
            dict.fromkeys(refs, Observation(Phase.ABSENT, ""))
            if self.missing
            else self._backend.observe(refs)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def test_jobs_that_have_ended_are_judged_as_many_at_once_as_the_backend_has_readers(
    client: Client,
) -> None:
    """The evidence of each one comes once that of the other is asked for."""
    jobs = [client.store.get(run(client, f"exit {code}")) for code in (3, 4)]
    costly = Costly(client, jobs[0].id, readers=2)
    refs = [client.engine.ref_of(job) for job in jobs]
    until_true(lambda: all(seen.phase.ended for seen in costly.observe(refs).values()))
    both_asked = threading.Barrier(2)
    Changed(client, jobs[0].id, "evidence", lambda: both_asked.wait(LIMIT_SECONDS))
    assert [one.job.exit_code for one in look(client.engine, jobs)] == [3, 4]


def test_a_question_is_answered_by_a_look_that_began_after_it(client: Client) -> None:
    job = run(client, "sleep 60")
    costly = Costly(client, job, poll_seconds=60)
    seen = [client.get_job_status(job).updated_at for _ in range(3)]
    assert costly.looks == [1, 1, 1]
    assert seen == sorted(seen)
    ref = client.engine.ref_of(client.store.get(job))
    assert ref is not None
    cancel_one(costly, ref, timedelta(0))
    assert client.get_job_status(job).status.terminal


@pytest.mark.slow
def test_questions_that_come_while_a_look_goes_on_share_the_next_one(client: Client) -> None:
    jobs = [run(client, "sleep 60") for _ in range(8)]
    costly = Costly(client, jobs[0])
    costly.hold = threading.Event()
    with ThreadPoolExecutor(len(jobs)) as pool:
        first = pool.submit(client.get_job_status, jobs[0])
        while not costly.looks:
            time.sleep(0.01)
        others = [pool.submit(client.get_job_status, job) for job in jobs[1:]]
        while sum(len(each.jobs) for each in client._looks._waiting.values()) < len(others):  # pyright: ignore
            time.sleep(0.01)
        costly.hold.set()
        assert not any(each.result().status.terminal for each in (first, *others))
    assert costly.looks == [1, 7]
    for job in jobs:
        client.cancel_job(job, grace=0)


def test_when_a_job_was_seen_never_goes_back(client: Client) -> None:
    job = run(client, "sleep 60")
    until(client, job, "Running")
    seen = client.get_job_status(job).updated_at
    Changed(client, job, "observe", cannot_be_asked)
    unseen = client.get_job_status(job)
    assert unseen.message.startswith("not seen now")
    assert unseen.updated_at == seen


@pytest.mark.slow
def test_waiting_asks_no_more_often_than_is_polite(client: Client) -> None:
    job = run(client, "sleep 60")
    costly = Costly(client, job, poll_seconds=60)
    with pytest.raises(WaitTimeout):
        client.wait(job, timeout=1.5)
    assert costly.looks == [1]
    client.cancel_job(job, grace=0)


def test_a_list_that_lags_behind_does_not_make_a_job_vanish(client: Client) -> None:
    job = run(client, "sleep 60")
    until(client, job, "Running")
    costly = Costly(client, job, lag_seconds=3600)
    costly.missing = True
    assert [client.list_jobs()[0].status for _ in range(5)] == [Status.RUNNING] * 5
    costly.missing = False
    assert client.list_jobs()[0].message.startswith("running")
    client.cancel_job(job, grace=0)


@pytest.mark.slow
def test_a_job_that_stays_away_for_longer_than_its_list_lags_is_gone(client: Client) -> None:
    job = run(client, "sleep 60")
    until(client, job, "Running")
    costly = Costly(client, job, lag_seconds=0.5)
    costly.missing = True
    gone = until(client, job, "removed outside")
    assert gone.status is Status.ERROR
    assert costly.looks


def test_a_job_that_is_gone_is_gone_also_when_the_clock_was_set_back(client: Client) -> None:
    job = run(client, "sleep 10")
    until(client, job, "Running")
    costly = Costly(client, job, lag_seconds=0.5)
    costly.missing = True
    seen = client.get_job(job)
    assert client.store.update(replace(seen, absent_looks=1, seen_at=utc_now() + timedelta(days=1)))
    until(client, job, "removed outside")


@pytest.mark.parametrize(
    ("ended_by", "words"),
    [(timedelta(hours=-1), "removed outside"), (timedelta(hours=1), "its time was over")],
)
def test_a_reason_for_an_absence_holds_unless_the_job_was_seen_alive_too_late_for_it(
    client: Client, ended_by: timedelta, words: str
) -> None:
    job = run(client, "sleep 60")
    until(client, job, "Running")
    backend, ref = client.engine.backend_of(client.get_job(job)), client.store.attempt(job).ref
    assert ref is not None
    gone = Observation(Phase.ABSENT, "", reason="its time was over", ended_by=utc_now() + ended_by)
    for _ in range(2):
        judge(client.engine, backend, client.store.get(job), ref, gone)
    ended = client.get_job(job)
    assert (ended.status, ended.message) == (Status.ERROR, words)
    cancel_one(backend, ref, timedelta(0))


def test_why_a_job_failed_is_still_told_when_nothing_of_it_is_left(client: Client) -> None:
    job = run(client, "echo RuntimeError: CUDA error: out of memory; exit 1")
    client.wait(job, timeout=300)
    before = client.diagnose(job)
    shutil.rmtree(client.store.attempt(job).ref.details["job_dir"])  # pyright: ignore
    assert before is not None
    assert before.rule != "nothing_known"
    assert client.diagnose(job) == before


def test_a_job_whose_next_attempt_follows_is_not_to_be_submitted_again(client: Client) -> None:
    job = run(client, SUPERVISOR_DIES, retries=1)
    until(client, job, "waits for a watcher")
    why = client.diagnose(job)
    assert why is not None
    assert why.suggestion == "The next attempt is started by a watcher: tao watch."


def test_a_retry_comes_due_however_short_its_watchers_live(client: Client) -> None:
    job = run(client, SUPERVISOR_DIES, retries=1)
    until(client, job, "waits for a watcher")
    due = {one.retry_at for _ in range(3) for one in look(client.engine, [client.store.get(job)])}
    assert len(due) == 1
    assert due != {None}


def test_a_job_that_waits_for_its_retry_is_explained_once(client: Client) -> None:
    job = run(client, SUPERVISOR_DIES, retries=1)
    until(client, job, "waits for a watcher")
    Changed(client, job, "evidence", pytest.fail)
    assert "waits for a watcher" in client.list_jobs()[0].message


class KnowsStartsLate:
    """The real backend, which says when something was started only once that has ended."""

    def __init__(self, client: Client, job: str) -> None:
        endpoint = client.store.attempt(job).attempt.endpoint
        self._backend = client.engine.backend("local", endpoint)
        client.engine._backends["local", endpoint] = self  # pyright: ignore

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def observe(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        seen = self._backend.observe(refs)
        return {
            ref: one if one.phase.ended else replace(one, started_at=None)
            for ref, one in seen.items()
        }


def test_a_start_that_the_backend_tells_late_counts_from_when_it_was(
    client: Client, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    job = run(client, f"until [ -e {go} ]; do sleep 0.05; done")
    KnowsStartsLate(client, job)
    running = until(client, job, "Running")
    go.touch()
    ended = until(client, job, "Complete")
    assert running.started is not None
    assert ended.started is not None
    assert ended.started < running.started


def test_the_message_of_a_job_whose_runner_failed_is_its_reason(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / "data.tar.gz").write_bytes(b"no archive")
    spec = {"data": str(tmp_path / "data.tar.gz")}
    job = client.submit(
        JobSpec(
            command="true {config_path}",
            specs=spec,
            inputs={"data": {"type": "folder"}},
            gpu_count=0,
        ),
        "local",
    ).job
    ended = client.wait(job.id, timeout=300)
    diagnosis = client.diagnose(job.id)
    assert ended.status is Status.ERROR
    assert diagnosis and diagnosis.rule == "archive_broken"
    assert ended.message == client.get_job_status(job.id).message == diagnosis.cause
    plain = client.submit(JobSpec(command="exit 3", gpu_count=0), "local").job
    assert client.wait(plain.id, timeout=300).message == "exit code 3"
