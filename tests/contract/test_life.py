"""The life of a job as its user sees it: it runs, ends, is canceled, fails, is retried, is
explained.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from support import TESTS
from support.places import Place, until_it_runs
from support.waiting import until
from tao_sdk.backends.contract import Backend, cancel_one
from tao_sdk.client import Client
from tao_sdk.model.errors import JobNotFound, UsageError, WaitTimeout
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

# What the engine does by itself, whatever the backend: shown where a job takes a moment.
ENGINE_ALONE = pytest.mark.parametrize("place", ["local", "docker"], indirect=True)


def submit(client: Client, place: Place, command: str, **more: object) -> Job:
    return client.submit(JobSpec(command=command, gpu_count=0, **more), place.platform).job  # pyright: ignore[reportArgumentType]


def test_a_job_ends_as_its_command_does(client: Client, place: Place) -> None:
    ends = {"true": ("Complete", 0), "exit 3": ("Error", 3), "kill -9 $$": ("Error", 137)}
    jobs = [submit(client, place, command).id for command in ends]
    ended = client.wait_all(jobs, timeout=300)
    assert [(job.status.value, job.exit_code) for job in ended] == list(ends.values())


def test_every_status_is_an_event_with_a_growing_number(client: Client, place: Place) -> None:
    job = submit(client, place, "sleep 0.5")
    client.wait(job.id, timeout=300)
    events = [event for event in client.events(job.id) if event.kind == "status"]
    assert events[0].status is Status.PENDING
    assert events[-1].status is Status.COMPLETE
    assert [event.seq for event in events] == sorted({event.seq for event in events})


def test_a_job_survives_its_client_and_is_found_by_another(place: Place, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom support.places import PLACES\n"
        "from tao_sdk.model.spec import JobSpec\n"
        f"client = PLACES[{place.platform!r}](Path({str(tmp_path)!r})).client(watch=True)\n"
        "print(client.submit(JobSpec(command='sleep 1; echo survived; exit 4', gpu_count=0), sys.argv[1]).job.id, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    argv = [sys.executable, "-c", script, place.platform]
    first = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**place.environ(), "PYTHONPATH": str(TESTS)},
    )
    job_id = first.stdout.strip()
    assert first.returncode == -9, first.stderr
    with place.client() as client:
        assert b"".join(client.follow_logs(job_id)) == b"survived\n"
        assert client.wait(job_id, timeout=300).status == "Error"
        assert client.get_job(job_id).exit_code == 4


def test_cancel_ends_the_whole_group_and_keeps_the_log(client: Client, place: Place) -> None:
    job = submit(client, place, "sleep 300 & echo begun; sleep 300")
    until_it_runs(client, job, b"begun")
    assert client.cancel_job(job.id, grace=5) is True
    assert client.get_job(job.id).status is Status.CANCELED
    assert client.get_job_logs(job.id) == "begun\n"
    assert place.running(job.id) == 0


def test_cancel_right_after_submit_leaves_nothing_running(client: Client, place: Place) -> None:
    for _ in range(5):
        job = submit(client, place, "sleep 300")
        assert client.cancel_job(job.id, grace=2) is True
        assert client.get_job(job.id).status is Status.CANCELED
        assert place.running(job.id) == 0


def test_a_command_that_ignores_the_signal_is_killed_after_the_grace(
    client: Client, place: Place
) -> None:
    job = submit(client, place, "trap '' TERM; echo deaf; while :; do sleep 0.1; done")
    until_it_runs(client, job, b"deaf")
    assert client.cancel_job(job.id, grace=0.5) is True
    assert place.running(job.id) == 0


def test_canceling_a_job_that_is_over_is_true_and_changes_nothing(
    client: Client, place: Place
) -> None:
    job = submit(client, place, "true")
    client.wait(job.id, timeout=300)
    assert client.cancel_job(job.id) is True
    assert client.get_job(job.id).status is Status.COMPLETE


def until_ended_unseen(client: Client, job: Job) -> None:
    """The backend knows the end, and our records do not yet."""
    ref = client.engine.ref_of(job)
    assert ref is not None
    until(lambda: client.engine.backend_of(job).observe([ref])[ref].phase.ended)


def test_a_job_that_ended_by_itself_before_the_cancel_came_is_not_canceled(
    client: Client, place: Place
) -> None:
    jobs = {command: submit(client, place, command) for command in ("true", "exit 3")}
    for job in jobs.values():
        until_ended_unseen(client, job)
        assert client.cancel_job(job.id) is True
    assert [client.get_job(job.id, look=False).status.value for job in jobs.values()] == [
        "Complete",
        "Error",
    ]


def test_a_failure_that_would_be_tried_again_is_ended_by_a_cancel(
    client: Client, place: Place
) -> None:
    job = submit(client, place, place.fails_by_infrastructure, retries=2)
    until_ended_unseen(client, job)
    assert client.cancel_job(job.id) is True
    assert client.get_job(job.id, look=False).status is Status.CANCELED


def test_a_cancel_asks_the_backend_once_and_its_answer_is_what_a_look_sees(
    client: Client, place: Place
) -> None:
    job = submit(client, place, "sleep 300")
    until_it_runs(client, job)
    ref = client.engine.ref_of(job)
    assert ref is not None
    backend = client.engine.backend_of(job)
    counting = Counting(backend)
    client.engine._backends[place.platform, ref.endpoint] = counting  # pyright: ignore
    assert client.cancel_job(job.id) is True
    assert (counting.canceled, counting.observed) == ([timedelta(seconds=10)], 0)
    seen, now = client.get_job(job.id, look=False), backend.observe([ref])[ref]
    assert (seen.status, seen.exit_code) == (Status.CANCELED, now.exit_code)
    again = cancel_one(backend, ref, timedelta(0))
    assert (again.phase, again.exit_code) == (now.phase, now.exit_code)


def test_a_job_that_was_removed_behind_our_back_is_told_so(client: Client, place: Place) -> None:
    job = submit(client, place, "sleep 300")
    until_it_runs(client, job)
    ref = client.engine.ref_of(job)
    assert ref is not None
    backend = client.engine.backend_of(job)
    cancel_one(backend, ref, timedelta(0))
    backend.release(ref)
    if place.remembers:
        assert client.wait(job.id, timeout=300).status == "Canceled"
        return
    assert client.wait(job.id, timeout=300).status == "Error"
    assert client.get_job(job.id).message == "removed outside"
    assert "Someone removed" in client.diagnose(job.id).cause  # pyright: ignore[reportOptionalMemberAccess]


def test_waiting_gives_up_in_time_and_the_job_goes_on(client: Client, place: Place) -> None:
    job = submit(client, place, "sleep 300")
    with pytest.raises(WaitTimeout, match=job.id):
        client.wait(job.id, timeout=0.3)
    assert not client.get_job(job.id).status.terminal


def test_a_time_limit_ends_the_job_and_is_the_diagnosis(client: Client, place: Place) -> None:
    job = submit(client, place, "echo begun; sleep 300", time_limit=timedelta(seconds=5))
    assert client.wait(job.id, timeout=300).status == "Error"
    analysis = client.get_failure_analysis(job.id)
    assert analysis is not None
    assert "time limit" in analysis["cause"]


def test_an_unknown_id_is_not_found_by_any_verb(client: Client) -> None:
    verbs = (client.get_job, client.get_job_status, client.get_job_logs, client.cancel_job,
         client.wait, client.diagnose,
             client.get_failure_analysis, client.get_job_results_dir, client.results, client.remove)  # fmt: skip
    for verb in verbs:
        with pytest.raises(JobNotFound):
            verb("nothing-0000000000")


def test_a_live_job_is_not_removed_and_an_ended_one_is(client: Client, place: Place) -> None:
    job = submit(client, place, "sleep 300")
    with pytest.raises(UsageError):
        client.remove(job.id)
    client.cancel_job(job.id, grace=0)
    client.remove(job.id)
    with pytest.raises(JobNotFound):
        client.get_job(job.id)


def test_after_gc_the_log_is_still_there(client: Client, place: Place) -> None:
    job = submit(client, place, "echo kept; echo me")
    client.wait(job.id, timeout=300)
    assert client.gc(older_than=timedelta(0)) == [job.id]
    assert client.gc(older_than=timedelta(0)) == []
    assert client.get_job_logs(job.id) == "kept\nme\n"
    assert client.get_job_logs(job.id, tail=1) == "me\n"
    assert client.get_job(job.id).status is Status.COMPLETE


def test_an_infrastructure_failure_is_tried_again_as_the_first_attempt_was_by_whoever_watches_and_both_logs_are_kept(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the folder, the environment and the results of the first, which was handed over by
    somebody else.
    """
    seen, fails = (
        tmp_path / "surroundings",
        f"[ $TAO_ATTEMPT = 2 ] || {{ {place.fails_by_infrastructure}; }}",
    )
    shows = (
        "echo attempt $TAO_ATTEMPT; echo $PWD $TAO_RESULTS_DIR "
        f"$ONLY_WHERE_IT_WAS_SUBMITTED >> {seen}"
    )
    monkeypatch.setenv("ONLY_WHERE_IT_WAS_SUBMITTED", "yes")
    with place.client() as client:
        job = submit(client, place, f"{shows}; {fails}", retries=2)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.delenv("ONLY_WHERE_IT_WAS_SUBMITTED")
    with place.client(watch=True) as watcher:
        watcher.wait(job.id, timeout=300)
        after = watcher.get_job(job.id)
    assert (after.status, after.attempt) == (Status.COMPLETE, 2), after.message
    first, second = seen.read_text().splitlines()
    assert second == first
    if place.inherits:
        assert first.split()[1:] == [job.results_dir, "yes"]
    with place.client() as client:
        assert client.get_job_logs(job.id) == "attempt 1\nattempt 2\n"


def test_a_fault_of_the_network_that_the_log_names_is_tried_again(place: Place) -> None:
    fault = "echo 'torch.distributed.DistBackendError: NCCL error: ncclSystemError'; exit 1"
    with place.client(watch=True) as client:
        job = submit(client, place, f"[ $TAO_ATTEMPT = 2 ] || {{ {fault}; }}", retries=2)
        client.wait(job.id, timeout=300)
        after = client.get_job(job.id)
    assert (after.status, after.attempt) == (Status.COMPLETE, 2), after.message


def test_reading_a_status_never_starts_another_attempt(client: Client, place: Place) -> None:
    job = submit(client, place, place.fails_by_infrastructure, retries=2)
    until(lambda: "waits for a watcher" in client.get_job(job.id).message)
    seen = client.get_job(job.id)
    assert (seen.status, seen.attempt) == (Status.PENDING, 1)
    assert seen.message == "attempt 2 waits for a watcher: tao watch"


def test_a_failing_program_is_not_tried_again(place: Place) -> None:
    with place.client(watch=True) as client:
        job = submit(client, place, "echo 'RuntimeError: CUDA out of memory'; exit 1", retries=5)
        client.wait(job.id, timeout=300)
        time.sleep(0.5)
        assert client.get_job(job.id).attempt == 1


class Counting:
    """The backend under test, with a count of what it is asked."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self.observed = backend, 0
        self.canceled: list[timedelta] = []  # the grace of each

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    def observe(self, refs: list[Ref]) -> object:
        self.observed += 1
        return self._backend.observe(refs)

    def cancel(self, refs: list[Ref], grace: timedelta) -> object:
        self.canceled.append(grace)
        return self._backend.cancel(refs, grace)


@ENGINE_ALONE
def test_a_thousand_jobs_are_watched_with_one_observe(client: Client, place: Place) -> None:
    real = submit(client, place, "sleep 300")
    until_it_runs(client, real)
    like = client.store.attempt(real.id)
    assert like.ref is not None
    for number in range(999):
        attempt = Attempt(
            f"many-{number:010}", 1, place.platform, like.attempt.endpoint, client.store.store_id
        )
        client.store.add(
            Job(attempt.job_id, "many", place.platform), AttemptRow(attempt, like.plan)
        )
        client.store.confirm(
            Ref(
                place.platform,
                like.ref.endpoint,
                like.ref.namespace,
                attempt.job_id,
                attempt.job_id,
                attempt,
            )
        )
    counting = Counting(client.engine.backend_of(real))
    client.engine._backends[place.platform, like.attempt.endpoint] = counting  # pyright: ignore
    jobs = client.list_jobs()
    for job in jobs:
        if job.name == "many":
            client.store.remove(job.id)  # there is nothing of it to cancel
    assert len(jobs) == 1000
    assert counting.observed == 1
    assert client.get_job(real.id).status is Status.RUNNING


def test_callbacks_fire_once_whoever_polls(client: Client, place: Place) -> None:
    fired: list[tuple[str, object]] = []
    hooks = {
        "on_complete": lambda job: fired.append(("complete", job.id)),
        "on_error": lambda job: fired.append(("error", job.id)),
        "on_epoch_milestone": lambda job, epoch, total: fired.append(("epoch", epoch)),
    }
    epochs = "for e in $(seq 1 25); do echo epoch $e/25 loss 0.$e; done"
    job = submit(client, place, epochs, hooks=hooks)
    polls = threading.Thread(target=lambda: client.wait(job.id, timeout=300))
    polls.start()
    client.wait(job.id, timeout=300)
    polls.join()
    until(lambda: ("complete", job.id) in fired)
    assert fired == [("epoch", 10), ("epoch", 20), ("complete", job.id)]


@ENGINE_ALONE
def test_a_command_hook_is_delivered_after_a_restart_with_an_event_id(
    place: Place, tmp_path: Path
) -> None:
    told = tmp_path / "told it's done"
    hooks = {"on_error": ["/bin/sh", "-c", 'cat >> "$0"; echo " $TAO_EVENT_ID" >> "$0"', str(told)]}
    with place.client() as client:
        job = submit(client, place, "exit 7", hooks=hooks)
        assert client.wait(job.id, timeout=300).status == "Error"
    assert not told.exists()
    for _ in range(2):
        with place.client() as client:
            client.watch()
    text = told.read_text()
    assert text.count(job.id) >= 1
    assert len(text.splitlines()) == 1, "delivered more than once without need"
    assert text.split()[-1].startswith(client.store.store_id)
