"""The kept copy of a log is the log, also when the keeper was killed in between."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tao_sdk.backends.contract import Backend, LogChunk, LogRequest
from tao_sdk.client import Client
from tao_sdk.engine.attempt_log import read_attempt
from tao_sdk.engine.diagnose import explain
from tao_sdk.engine.drain import drain
from tao_sdk.model.errors import NoLog, PathNotFound, Unreachable, UsageError
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.plan import Ref
from tao_sdk.model.replica import Replica
from tao_sdk.model.spec import JobSpec


@pytest.mark.slow
def test_a_drain_that_was_cut_short_repeats_no_byte(client: Client) -> None:
    job = client.submit(JobSpec(command="seq 1 1000", gpu_count=0), "local").job
    client.wait(job.id, timeout=300)
    row = client.store.attempt(job.id)
    client.engine.store.log_copies.append(
        row.attempt, b"1\n2\n3"
    )  # killed before the cursor was saved
    drain(client.engine, job, row)
    drain(client.engine, job, client.store.attempt(job.id))
    size = client.engine.store.log_copies.size(row.attempt)
    assert client.engine.store.log_copies.read(row.attempt, 0, size) == b"".join(
        f"{n}\n".encode() for n in range(1, 1001)
    )


def test_the_copy_of_a_job_that_is_over_is_compressed_and_read_as_its_log(client: Client) -> None:
    job = client.submit(JobSpec(command="seq 1 300000", gpu_count=0), "local").job
    client.wait(job.id, timeout=300)
    log = b"".join(client.follow_logs(job.id))
    drain(client.engine, client.get_job(job.id), client.store.attempt(job.id))
    files = list((client.store.log_copies.directory / job.id).iterdir())
    assert [file.suffix for file in files] == [".gz"]
    assert files[0].stat().st_size < len(log) / 3
    client.engine.backend_of(job).release(
        client.engine.ref_of(job) or pytest.fail("it has a place")
    )
    assert b"".join(client.follow_logs(job.id)) == log
    assert client.get_job_logs(job.id, tail=2) == "299999\n300000\n"


def test_a_log_that_only_its_platform_has_is_not_shown_as_empty_while_that_is_away(
    client: Client,
) -> None:
    job = client.submit(JobSpec(command="echo there; sleep 60", gpu_count=0), "local").job
    row = client.store.attempt(job.id)
    away = replace(row, attempt=replace(row.attempt, endpoint="elsewhere"))
    with pytest.raises(Unreachable, match="lives on elsewhere"):
        list(read_attempt(client.engine, away, LogRequest()))
    client.engine.store.log_copies.append(row.attempt, b"kept\n")
    assert [chunk.data for chunk in read_attempt(client.engine, away, LogRequest())] == [b"kept\n"]
    assert client.cancel_job(job.id, grace=0)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [0, 1, 2, 5, 6, 100])
@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_the_tail_of_a_kept_log_is_right_across_the_pieces_it_is_kept_in(
    client: Client, lines: int, ending: bytes
) -> None:
    job = client.submit(JobSpec(command="true", gpu_count=0), "local").job
    client.wait(job.id, timeout=300)
    client.engine.store.log_copies.segment_size = 7
    log = b"one\ntwo words\n\nfour\nfive" + ending
    row = client.store.attempt(job.id)
    client.engine.store.log_copies.append(row.attempt, log)
    client.engine.backend_of(job).release(
        client.engine.ref_of(job) or pytest.fail("it has a place")
    )
    last = log.splitlines(keepends=True)[-lines:] if lines else []
    assert b"".join(client.follow_logs(job.id, tail=lines, follow=False)) == b"".join(last)


@pytest.mark.slow
def test_a_diagnosis_shows_the_start_and_the_end_of_a_line_as_long_as_the_log(
    client: Client,
) -> None:
    command = "printf 'begin '; head -c 30000000 /dev/zero | tr '\\0' x; printf ' end'; exit 3"
    job = client.submit(JobSpec(command=command, gpu_count=0), "local").job
    client.wait(job.id, timeout=300)
    tracemalloc.start()
    found = explain(client.engine, client.get_job(job.id))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.evidence.endswith("x end")
    assert len(found.evidence) < 2000
    assert most < 8_000_000


@pytest.mark.slow
def test_a_follower_whose_log_is_let_go_under_it_gets_the_rest_from_the_kept_copy(
    client: Client,
) -> None:
    log = b"".join(b"%d\n" % n for n in range(300_000))
    job = client.submit(JobSpec(command="seq 0 299999", gpu_count=0), "local").job
    client.wait(job.id, timeout=300)
    drain(client.engine, job, client.store.attempt(job.id))
    backend, ref = client.engine.backend_of(job), client.engine.ref_of(job)
    read = backend.logs(ref, LogRequest(cursor=""))  # pyright: ignore[reportArgumentType]
    start = next(read)
    assert 0 < len(start.data) < len(log)
    client.engine._backends[job.platform, backend.endpoint] = Forgets(backend, start)  # pyright: ignore
    assert b"".join(client.follow_logs(job.id)) == log


class Forgets:
    """The real backend, which loses its log after the first piece was read."""

    def __init__(self, backend: Backend, start: LogChunk) -> None:
        self._backend, self._start = backend, start

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        yield self._start
        raise PathNotFound("The log is gone.")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class Away:
    """The real backend, which cannot be asked for a log a few times."""

    def __init__(self, backend: Backend, times: int) -> None:
        self._backend, self._times = backend, times

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        self._times -= 1
        if self._times >= 0:
            raise Unreachable("connection refused", "", "Start it.")
        yield from self._backend.logs(ref, request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


@pytest.mark.slow
@pytest.mark.parametrize(("times", "told"), [(1, 0), (2, 1), (4, 1)])
def test_who_follows_is_told_once_that_the_backend_stays_away(
    client: Client, caplog: pytest.LogCaptureFixture, times: int, told: int
) -> None:
    job = client.submit(JobSpec(command="echo once", gpu_count=0), "local").job
    client.wait(job.id, timeout=300)
    backend = client.engine.backend_of(job)
    client.engine._backends[job.platform, backend.endpoint] = Away(backend, times)  # pyright: ignore
    assert b"".join(client.follow_logs(job.id)) == b"once\n"
    said = [each.getMessage() for each in caplog.records if each.name == "tao_sdk.logs"]
    assert (
        said
        == [
            (
                f"{job.id} cannot be seen now, its log goes on once it can: "
                "connection refused. Start it."
            )
        ]
        * told
    )


class Unreadable:
    """The real backend, which keeps no log that it could show."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        raise NoLog("Its logging driver keeps none.")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_why_there_is_no_log_is_told_where_there_is_no_copy_of_it_either(
    client: Client, kept: bool
) -> None:
    job = client.submit(JobSpec(command="echo once", gpu_count=0), "local").job
    client.wait(job.id, timeout=300)
    if kept:
        drain(client.engine, job, client.store.attempt(job.id))
    backend = client.engine.backend_of(job)
    client.engine._backends[job.platform, backend.endpoint] = Unreadable(backend)  # pyright: ignore
    if kept:
        assert (
            client.get_job_logs(job.id) == b"".join(client.follow_logs(job.id)).decode() == "once\n"
        )
        assert client.get_job_logs(job.id, tail=1) == "once\n"
        return
    for asked in ({}, {"tail": 1}, {"follow": False}):
        with pytest.raises(NoLog, match="keeps none"):
            list(client.follow_logs(job.id, **asked))  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["stdout", "stderr", "err"])
def test_a_stream_that_cannot_be_had_alone_is_an_error_and_not_the_whole_log(
    client: Client, stream: str
) -> None:
    job = client.submit(JobSpec(command="echo out; echo err >&2", gpu_count=0), "local").job.id
    client.wait(job, timeout=300)
    with pytest.raises(UsageError, match=stream):
        client.get_job_logs(job, stream=stream)


def released(client: Client, command: str, **more: Any) -> str:
    """A job that has ended, whose place was then removed by somebody else."""
    job = client.submit(JobSpec(command=command, gpu_count=0, **more), "local").job
    client.wait(job.id, timeout=300)
    client.engine.backend_of(job).release(
        client.engine.ref_of(job) or pytest.fail("it has a place")
    )
    return job.id


def test_a_log_that_nobody_has_any_more_is_an_error_and_not_empty(client: Client) -> None:
    job = released(client, "echo once")
    for asked in ({}, {"tail": 1}, {"follow": False}):
        with pytest.raises(NoLog, match="is gone") as gone:
            list(client.follow_logs(job, **asked))  # pyright: ignore[reportArgumentType]
        assert gone.value.command == f"tao results {job}"


def test_a_log_whose_place_was_removed_is_read_among_the_results(client: Client) -> None:
    job = released(client, "seq 1 5; echo kept > $TAO_RESULTS_DIR/out", outputs=["out"])
    assert client.get_job_logs(job) == "1\n2\n3\n4\n5\n"
    assert client.get_job_logs(job, tail=2) == "4\n5\n"


def test_no_link_is_followed_from_the_results_to_a_log_elsewhere(
    client: Client, tmp_path: Path
) -> None:
    job = released(client, "seq 1 5; echo kept > $TAO_RESULTS_DIR/out", outputs=["out"])
    (tmp_path / "secret").write_text("not its log")
    log = Path(client.get_job_results_dir(job)) / ".tao" / "job.log"
    log.unlink()
    log.symlink_to(tmp_path / "secret")
    with pytest.raises(NoLog):
        client.get_job_logs(job)


def test_the_log_of_a_later_attempt_is_told_where_that_of_an_earlier_one_is_lost(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    job = client.submit(JobSpec(command="echo again", gpu_count=0, retries=1), "local").job
    client.wait(job.id, timeout=300)
    first = client.store.attempt(job.id)
    client.engine.backend_of(job).release(
        client.engine.ref_of(job) or pytest.fail("it has a place")
    )
    second = replace(first, attempt=replace(first.attempt, number=2))
    client.store.add_attempt(replace(client.store.get(job.id), attempt=2), second)
    client.store.log_copies.append(second.attempt, b"second\n")
    assert client.get_job_logs(job.id) == "second\n"
    assert [
        "attempt 1" in each.getMessage() for each in caplog.records if each.name == "tao_sdk.logs"
    ] == [True]


class ThreeRanks:
    """The real backend with three ranks. `missing` says why a rank has no log."""

    def __init__(self, backend: Backend, missing: dict[int, Exception]) -> None:
        self._backend, self._missing = backend, missing

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        if request.rank in self._missing:
            raise self._missing[request.rank]
        if not request.cursor:
            yield LogChunk(b"of rank %d\n" % request.rank, "end", f"pod-{request.rank}, node")

    def replicas(self, ref: Ref) -> list[Replica]:
        return []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def with_three_ranks(
    client: Client, monkeypatch: pytest.MonkeyPatch, missing: dict[int, Exception]
) -> Job:
    job = client.submit(JobSpec(command="true", gpu_count=0), "local").job
    client.wait(job.id, timeout=300)
    monkeypatch.setattr(AttemptRow, "ranks", 3)
    backend = client.engine.backend_of(job)
    client.engine._backends[job.platform, backend.endpoint] = ThreeRanks(backend, missing)  # pyright: ignore
    return client.get_job(job.id)


@pytest.mark.slow
@pytest.mark.parametrize("error", [PathNotFound("gone"), Unreachable("its node is away")])
def test_a_rank_without_a_log_hides_no_other_ranks(
    client: Client, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    job = with_three_ranks(client, monkeypatch, {0: error})
    with suppress(Unreachable):
        drain(client.engine, job, client.store.attempt(job.id))
    attempt = client.store.attempt(job.id).attempt
    copies = client.engine.store.log_copies
    assert [copies.read(attempt, rank=rank) for rank in range(3)] == [
        b"",
        b"of rank 1\n",
        b"of rank 2\n",
    ]
    assert client.get_job_logs(job.id) == (
        "==> rank 1 (pod-1, node) <==\nof rank 1\n==> rank 2 (pod-2, node) <==\nof rank 2\n"
    )


def test_a_place_that_cannot_be_reached_for_any_rank_is_asked_for_three_of_them(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = {rank: Unreachable(f"away {rank}") for rank in range(3)}
    job = with_three_ranks(client, monkeypatch, dict(away))
    monkeypatch.setattr(AttemptRow, "ranks", 500)
    for asked in (
        lambda: drain(client.engine, job, client.store.attempt(job.id)),
        lambda: client.get_job_logs(job.id),
    ):
        with pytest.raises(Unreachable, match="away"):
            asked()
