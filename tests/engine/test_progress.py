"""Progress as the engine reads it: from the log, and from the status file where the log tells
nothing.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tao_sdk.backends.contract import Backend, KiB, LogChunk, LogRequest, NewLog
from tao_sdk.client import Client
from tao_sdk.engine import lease, progress, reading
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.plan import Ref
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

SILENT = """
mkdir -p $TAO_RESULTS_DIR/out/train
cd $TAO_RESULTS_DIR/out/train
for e in 1 2 3; do echo '{"epoch": '$e', "max_epoch": 3, "kpi": {"val_accuracy": 0.'$e'}}' >> status.json; done
printf '{"epoch": 4, "max_ep' >> status.json
"""


def test_a_job_that_prints_nothing_is_followed_by_its_status_file(client: Client) -> None:
    job = client.submit(JobSpec(command=SILENT, gpu_count=0), "local").job
    client.wait(job.id, timeout=300)
    progress = client.results(job.id).progress
    assert (progress.epoch, progress.epochs) == (3, 3)
    assert [event.data["epoch"] for event in client.events(job.id) if event.kind == "progress"] == [
        1,
        2,
        3,
    ]


def test_a_second_look_reads_only_what_is_new(client: Client) -> None:
    job = client.submit(
        JobSpec(command="echo epoch 1/9 loss 0.5; echo epoch 2/9 loss 0.4", gpu_count=0), "local"
    ).job
    client.wait(job.id, timeout=300)
    once = client.refresh_progress(client.get_job(job.id))
    twice = client.refresh_progress(once)
    assert twice.revision == once.revision
    assert [event.data["epoch"] for event in client.events(job.id) if event.kind == "progress"] == [
        1,
        2,
    ]


MANY = "import sys\nfor n in range(1, 60001): sys.stdout.write(f'epoch {n}/60000 loss 0.5\\n')"


def many_epochs(client: Client, after: str = "") -> str:
    """A job that has printed 60,000 epochs, which nobody has read."""
    job = client.submit(JobSpec(command=f'python3 -c "{MANY}"; {after}', gpu_count=0), "local").job
    while "epoch 60000/" not in client.get_job_logs(job.id, tail=1):
        time.sleep(0.05)
    return job.id


@pytest.mark.slow
def test_a_scan_reads_as_much_as_it_has_time_for_and_the_next_one_goes_on(client: Client) -> None:
    job = many_epochs(client, "sleep 60")
    first = progress.scan(client.engine, client.store.get(job), seconds=0)
    assert 0 < first.progress.epoch < 60_000
    assert int(first.reading.cursor) <= 256 * KiB
    assert first.progress.as_of is None
    second = progress.scan(client.engine, first)
    assert second.progress.epoch == 60_000
    assert second.progress.as_of is not None
    client.cancel_job(job, grace=0)
    told = [event.data["epoch"] for event in client.events(job) if event.kind == "progress"]
    assert told == list(range(1, 60_001))


@pytest.mark.slow
def test_ending_a_job_does_not_wait_for_all_of_its_log_to_be_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = many_epochs(client, "sleep 60")
    monkeypatch.setattr("tao_sdk.engine.look.END_SECONDS", 0)
    assert client.cancel_job(job, grace=0)
    ended = client.get_job(job, look=False)
    assert (ended.progress.epoch < 60_000, ended.reading.whole) == (True, False)
    later = client.refresh_progress(client.get_job(job))
    assert (later.progress.epoch, later.reading.whole) == (60_000, True)


@pytest.mark.slow
def test_a_cancel_reads_no_more_of_a_long_log_than_a_slow_machine_reads_in_two_seconds(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock of the test's own: each time that it is asked, 0.4 seconds are over."""
    job = many_epochs(client, "sleep 60")
    moments = itertools.count(step=0.4)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    assert client.cancel_job(job, grace=0)
    ended = client.get_job(job, look=False)
    assert 0 < int(ended.reading.cursor) <= 5 * 256 * KiB
    assert (ended.progress.epoch < 60_000, ended.reading.whole) == (True, False)
    assert next(moments) <= 2 + 0.4 * 5


class Together:
    """The real backend, which reads many logs in one question; what it was asked is counted."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.asked: list[int] = []
        self.alone = 0

    def new_logs(self, cursors: Mapping[Ref, str]) -> Mapping[Ref, NewLog]:
        self.asked.append(len(cursors))
        return {
            ref: NewLog(tuple(self._backend.logs(ref, LogRequest(cursor=cursor))))
            for ref, cursor in cursors.items()
        }

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        self.alone += 1
        return self._backend.logs(ref, request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


@pytest.mark.slow
def test_the_progress_of_a_list_of_jobs_is_one_question_where_each_is_a_round_trip(
    client: Client,
) -> None:
    command = "echo epoch 1/9 loss 2.0; sleep 60"
    jobs = [client.submit(JobSpec(command=command, gpu_count=0), "local").job for _ in range(5)]
    for job in jobs:
        while "epoch" not in client.get_job_logs(job.id):
            time.sleep(0.05)
    backend = client.engine.backend_of(jobs[0])
    together = Together(backend)
    client.engine._backends["local", backend.endpoint] = together  # pyright: ignore
    assert [job.progress.epoch for job in client.list_jobs()] == [1] * 5
    assert (together.asked, together.alone) == ([5], 0)
    client.engine._backends["local", backend.endpoint] = backend  # pyright: ignore[reportPrivateUsage]
    for job in jobs:
        client.cancel_job(job.id, grace=0)


class SideBySide:
    """A backend of which each log is a question to a server: it gives none before `together` are
    asked for.
    """

    def __init__(self, backend: Backend, together: int) -> None:
        self._backend, self.asked = backend, 0
        self._all_there = threading.Barrier(together)
        self.capabilities = replace(backend.capabilities, readers=together)

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        self.asked += 1
        self._all_there.wait(120)
        return self._backend.logs(ref, request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


@pytest.mark.slow
def test_the_logs_of_many_jobs_are_read_side_by_side_and_only_as_long_as_a_look_may_take(
    client: Client,
) -> None:
    command = "echo epoch 1/9 loss 2.0; sleep 60"
    jobs = [client.submit(JobSpec(command=command, gpu_count=0), "local").job for _ in range(6)]
    for job in jobs:
        while "epoch" not in client.get_job_logs(job.id):
            time.sleep(0.05)
    running = [
        client.store.get(job.id) for job in client.list_jobs() if job.status is Status.RUNNING
    ]
    backend = client.engine.backend_of(jobs[0])
    slow = SideBySide(backend, 3)
    client.engine._backends["local", backend.endpoint] = slow  # pyright: ignore
    reading.read(client.engine, running, 60)
    assert slow.asked == 6
    alone = SideBySide(backend, 1)
    client.engine._backends["local", backend.endpoint] = alone  # pyright: ignore
    assert len(reading.read(client.engine, running, 0)) == 6
    assert alone.asked == 1, "the others are read at the next look"
    client.engine._backends["local", backend.endpoint] = backend  # pyright: ignore[reportPrivateUsage]
    for job in jobs:
        client.cancel_job(job.id, grace=0)


class ReadsFew:
    """A backend that allows a look only `most` logs, and of which some logs give no answer."""

    def __init__(self, backend: Backend, most: int) -> None:
        self._backend = backend
        self.capabilities = replace(backend.capabilities, readers=most, logs_per_look=most)
        self.silent: set[str] = set()
        self.asked: list[str] = []

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        self.asked.append(ref.attempt.job_id)
        if ref.attempt.job_id in self.silent:
            raise Unreachable("Its node does not answer.", "", "Try again.")
        return self._backend.logs(ref, request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def test_a_look_reads_no_more_logs_than_the_backend_allows_and_each_has_its_turn(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "echo epoch 1/9 loss 2.0; sleep 60"
    jobs = [client.submit(JobSpec(command=command, gpu_count=0), "local").job for _ in range(5)]
    for job in jobs:
        while "epoch" not in client.get_job_logs(job.id):
            time.sleep(0.05)
    backend = client.engine.backend_of(jobs[0])
    few = ReadsFew(backend, 2)
    few.silent = {jobs[0].id, jobs[1].id}
    client.engine._backends["local", backend.endpoint] = few  # pyright: ignore
    for _ in range(3):
        before = len(few.asked)
        client.list_jobs()
        assert len(few.asked) - before <= 2
    assert {job.id for job in jobs} == set(few.asked)
    epochs = {job.id: job.progress.epoch for job in client.list_jobs(look=False)}
    assert [epochs[job.id] for job in jobs] == [0, 0, 1, 1, 1]

    def read_by_a_list(log_seconds: float) -> list[str]:
        few.capabilities = replace(few.capabilities, log_seconds=log_seconds)
        few.asked.clear()
        client.list_jobs()
        return sorted(few.asked)

    assert read_by_a_list(600) == sorted(few.silent), "the others were read a moment ago"
    assert len(read_by_a_list(1e-6)) == 2
    with monkeypatch.context() as patched:
        patched.setattr(reading, "LOOKS_FOR_ALL", 2)
        assert len(read_by_a_list(1e-6)) == 1, "five are more than two lists can read"
    watch = lease.of_watch(("local", backend.endpoint))
    assert client.engine.keep_watch(watch, 60)
    assert read_by_a_list(1e-6) == [], "whoever watches reads them"
    client.engine.leave_watch(watch)
    client.engine._backends["local", backend.endpoint] = backend  # pyright: ignore[reportPrivateUsage]
    for job in jobs:
        client.cancel_job(job.id, grace=0)


BOTH = """
mkdir -p $TAO_RESULTS_DIR/out
cd $TAO_RESULTS_DIR
status() { echo '{"epoch": '$1', "max_epoch": 3, "kpi": {"val_loss": 0.'$1', "accuracy": 0.5}}' >> out/status.json; }
"""
FILE_FIRST = "status 1; touch early; while [ ! -e go_on ]; do sleep 0.02; done;"
LOG = "for e in 1 2 3; do echo epoch $e/3 loss 0.$e; status $e; done"


def shown_at_the_end(client: Client, job_id: str) -> tuple[Any, ...]:
    client.wait(job_id, timeout=300)
    progress = client.results(job_id).progress
    reported = [event.data["epoch"] for event in client.events(job_id) if event.kind == "progress"]
    return (
        progress.epoch,
        progress.metrics,
        progress.best,
        progress.history,
        sorted(set(reported)),
        reported == sorted(reported),
    )


@pytest.mark.slow
def test_what_is_shown_does_not_depend_on_whether_the_log_or_the_status_file_was_read_first(
    client: Client,
) -> None:
    log_first = client.submit(JobSpec(command=BOTH + LOG, gpu_count=0), "local").job
    at_log_first = shown_at_the_end(client, log_first.id)
    file_first = client.submit(JobSpec(command=BOTH + FILE_FIRST + LOG, gpu_count=0), "local").job
    folder = Path(file_first.results_dir)
    while not (folder / "early").exists():
        time.sleep(0.02)
    assert (
        client.refresh_progress(client.get_job(file_first.id)).progress.metrics["val_loss"] == 0.1
    )
    (folder / "go_on").touch()
    assert shown_at_the_end(client, file_first.id) == at_log_first


@pytest.mark.slow
def test_epochs_of_a_long_log_are_written_down_while_it_is_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = many_epochs(client, "sleep 60")
    monkeypatch.setattr(progress, "EPOCHS_AT_ONCE", 1000)
    held: list[int] = []
    write = progress._write  # pyright: ignore[reportPrivateUsage]

    def counted(*arguments: Any) -> Any:
        held.append(len(arguments[3].epochs))
        return write(*arguments)

    monkeypatch.setattr(progress, "_write", counted)
    assert client.refresh_progress(client.get_job(job, look=False)).progress.epoch == 60_000
    client.cancel_job(job, grace=0)
    assert max(held) < 20_000
    told = [event.data["epoch"] for event in client.events(job) if event.kind == "progress"]
    assert sorted(set(told)) == list(range(1, 60_001))


@pytest.mark.slow
def test_a_line_that_is_longer_than_any_text_is_read_on_at_the_next_look(client: Client) -> None:
    classes = ", ".join(f'"class_{n}_ap": 0.5' for n in range(600))
    command = f"""printf '%s' '{{"epoch": 1, "max_epoch": 2, "kpi": {{{classes}, '; touch $TAO_RESULTS_DIR/half
    while [ ! -e $TAO_RESULTS_DIR/go_on ]; do sleep 0.02; done; echo '"val_accuracy": 0.9}}}}'"""
    job = client.submit(JobSpec(command=command, gpu_count=0), "local").job
    while not Path(job.results_dir, "half").exists():
        time.sleep(0.02)
    assert client.refresh_progress(client.get_job(job.id)).progress.epoch == 0
    Path(job.results_dir, "go_on").touch()
    client.wait(job.id, timeout=300)
    assert client.results(job.id).progress.epoch == 1
