"""What is told of a job beside its status and its diagnosis."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from support.waiting import until
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.reasons import Reason
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

pytestmark = pytest.mark.slow

SAVES_FOR_LONG = """
import signal, time
def save(*_):
    print("saving", flush=True)
    time.sleep(300)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
while True:
    time.sleep(0.1)
"""
SAVES_AT_ONCE = SAVES_FOR_LONG.replace("time.sleep(300)", "raise SystemExit(0)")
CRASHES = "print('epoch 1/3 loss 2', flush=True); raise ValueError('no room')"


def python(program: str) -> str:
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(program)}"


def run(client: Client, command: str, **more: object) -> Job:
    return client.submit(JobSpec(command=command, gpu_count=0, **more), "local").job  # pyright: ignore[reportArgumentType]


def canceled(client: Client, command: str, grace: float, **more: object) -> Job:
    job = run(client, command, **more)
    until(lambda: "up" in client.get_job_logs(job.id))
    assert client.cancel_job(job.id, grace=grace) is True
    return client.get_job(job.id)


@pytest.mark.parametrize("command", ["{0}", "{0}; echo more"])
@pytest.mark.parametrize("files", [{}, {"note": "for the runner"}])
def test_a_job_that_was_killed_when_its_grace_was_over_says_so(
    client: Client, command: str, files: dict[str, str]
) -> None:
    job = canceled(client, command.format(python(SAVES_FOR_LONG)), 1.5, files=files)
    assert (job.status, job.exit_code) == (Status.CANCELED, 137)
    assert (job.reason_code, job.message) == (
        Reason.GRACE_OVER,
        "killed after its grace of 1.5s",
    )
    [note] = client.notes(job.id)
    assert "--grace 30s gives it longer" in note


def test_a_job_that_ended_in_its_grace_says_nothing_of_it(client: Client) -> None:
    job = canceled(client, f"exec {python(SAVES_AT_ONCE)}", 60)
    assert (job.status, job.reason_code) == (Status.CANCELED, Reason.CANCELED)
    assert client.notes(job.id) == []


def test_a_program_that_another_has_killed_is_not_said_to_have_outlived_its_grace(
    client: Client,
) -> None:
    kills_itself = SAVES_FOR_LONG.replace("time.sleep(300)", "import os; os.kill(os.getpid(), 9)")
    job = canceled(client, f"exec {python(kills_itself)}", 600)
    assert (job.exit_code, job.reason_code) == (137, Reason.CANCELED)


def test_a_tee_in_a_script_is_told_as_one_in_the_command(client: Client, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(f"{python(SAVES_FOR_LONG)} | tee log\n")
    job = canceled(client, "bash job.sh", 60)
    assert any("The signal ended tee too" in note for note in client.notes(job.id))


@pytest.mark.parametrize(
    ("command", "helps"),
    [
        ("{0} 2>&1 | tee log", "begin the command with: set -o pipefail;"),
        ("{0}; echo done", "python ... && echo ..."),
    ],
)
def test_a_crash_that_the_exit_code_hides_is_told(client: Client, command: str, helps: str) -> None:
    job = run(client, command.format(python(CRASHES)))
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    [note] = client.notes(job.id)
    assert "seems to have failed: ValueError: no room." in note
    assert helps in note


def test_a_kill_that_the_exit_code_hides_is_told(client: Client) -> None:
    job = run(client, f"{python('import os; os.kill(os.getpid(), 9)')}; echo done")
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    [note] = client.notes(job.id)
    assert "python seems to have failed: " in note
    assert " Killed " in note


def test_a_complete_job_whose_loss_is_nan_says_what_helps(client: Client) -> None:
    job = run(client, "echo epoch 1/2 loss 0.5; echo epoch 2/2 loss nan")
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    [note] = client.notes(job.id)
    assert note.startswith("Its loss is NaN or infinite from epoch 2 on. Lower the learning rate")


GOES_ON = """
import traceback
try:
    raise ValueError("no room")
except ValueError:
    traceback.print_exc()
print("another try went well")
"""
IN_A_THREAD = """
import threading
thread = threading.Thread(target=lambda: 1 / 0)
thread.start(); thread.join()
"""


@pytest.mark.parametrize("program", [GOES_ON, IN_A_THREAD])
def test_a_traceback_that_ended_no_program_is_no_failure(client: Client, program: str) -> None:
    job = run(client, f"{python(program)} 2>&1 | tee log")
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    assert client.notes(job.id) == []


def test_a_filter_that_holds_back_what_a_running_job_prints_is_named(client: Client) -> None:
    job = run(client, f"{python(SAVES_FOR_LONG)} | grep u")
    until(lambda: client.get_job(job.id).status is Status.RUNNING)
    [note] = client.notes(job.id)
    assert "--line-buffered" in note
    client.cancel_job(job.id, grace=0.2)


def test_a_progress_line_is_not_told_as_the_error_of_a_program_that_failed_while_ending(
    client: Client,
) -> None:
    program = SAVES_FOR_LONG.replace(
        'print("saving", flush=True)',
        "print('epoch 3/9 loss 0.5', flush=True); raise SystemExit(1)",
    )
    job = canceled(client, f"exec {python(program)}", 60)
    assert client.failure_while_ending(job.id) == "exit code 1"
