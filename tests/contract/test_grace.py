"""The time that a cancel gives to a command: the program has it, packed or not, and is told once."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from support.places import Place, until_it_runs
from support.signal_programs import COUNTS_SIGNALS
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

OWN_GRACE = "1"  # seconds of TAO_GRACE, where env_vars can set it
PACKED = {"plain": {}, "packed": {"files": {"note": "for the runner"}}}

SAVES_SLOWLY = """
import signal, sys, time
def save(*_):
    for part in range(8):
        print("part", part, flush=True)
        time.sleep(0.5)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
while True:
    time.sleep(0.1)
"""

IGNORES_SIGNALS = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    time.sleep(0.1)
"""


def start(client: Client, place: Place, program: str, **more: Any) -> Job:
    spec = JobSpec(
        command=f"exec python3 -c {shlex.quote(program)}",
        **{"name": "grace", "gpu_count": 0, "env_vars": {"TAO_GRACE": OWN_GRACE}, **more},
    )
    job = client.submit(spec, place.platform).job
    until_it_runs(client, job, b"up")
    return job


@pytest.mark.parametrize("kind", PACKED)
def test_a_program_has_all_the_time_that_the_cancel_gives(
    client: Client, place: Place, kind: str
) -> None:
    """It needs more than the job has by itself."""
    if place.platform in ("kubernetes", "lepton"):
        pytest.skip("nothing in a pod or replica sees the grace of its end")
    job = start(client, place, SAVES_SLOWLY, **PACKED[kind])
    assert client.cancel_job(job.id, grace=120) is True
    assert client.get_job(job.id).status is Status.CANCELED
    assert client.get_job_logs(job.id).endswith("saved\n")


@pytest.mark.parametrize("kind", PACKED)
def test_a_program_that_ignores_the_signal_is_ended_by_a_shorter_grace_than_its_own(
    client: Client, place: Place, kind: str
) -> None:
    job = start(client, place, IGNORES_SIGNALS, env_vars={"TAO_GRACE": "3000"}, **PACKED[kind])
    client.cancel_job(job.id, grace=1)
    ended = client.wait(job.id, timeout=300)
    assert ended.status is Status.CANCELED
    assert ended.message == "killed after its grace of 1s"
    assert place.running(job.id) == 0


@pytest.mark.parametrize("kind", PACKED)
def test_a_program_that_counts_its_signals_is_told_once(
    client: Client, place: Place, kind: str
) -> None:
    job = start(client, place, COUNTS_SIGNALS, env_vars={}, **PACKED[kind])
    assert client.cancel_job(job.id, grace=120) is True
    assert "told 1\n" in client.get_job_logs(job.id)


SPEAKS_LAST = """
import signal, sys, time
def speak(*_):
    time.sleep(0.5)
    print("last words", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, speak)
print("up", flush=True)
while True:
    time.sleep(0.1)
"""


def test_a_tee_that_ignores_the_signal_passes_a_programs_last_words_on(
    client: Client, place: Place
) -> None:
    """SIGTERM is for the whole group: another tee, and another shell, would end before the program
    does.
    """
    tee = "(trap '' TERM; exec tee /tmp/words-$TAO_JOB_ID)"
    command = f"trap : TERM; python3 -c {shlex.quote(SPEAKS_LAST)} | {tee}"
    job = client.submit(JobSpec(command=command, name="grace", gpu_count=0), place.platform).job
    until_it_runs(client, job, b"up")
    assert client.cancel_job(job.id, grace=120) is True
    assert client.get_job_logs(job.id) == "up\nlast words\n"


SAVES_ONCE = """
import signal, sys, time
def save(*_):
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
while True:
    time.sleep(0.1)
"""


def test_a_program_below_a_shell_has_its_time_though_the_signal_ends_the_shell(
    client: Client, place: Place
) -> None:
    command = f"python3 -c {shlex.quote(SAVES_ONCE)}; echo more"
    job = client.submit(JobSpec(command=command, name="grace", gpu_count=0), place.platform).job
    until_it_runs(client, job, b"up")
    assert client.cancel_job(job.id, grace=120) is True
    assert client.get_job_logs(job.id) == "up\nsaved\n"


def test_a_program_hears_an_interrupt(client: Client, place: Place) -> None:
    program = "import signal; print(signal.getsignal(signal.SIGINT).__name__)"
    command = f"python3 -c {shlex.quote(program)}"
    job = client.submit(JobSpec(command=command, name="grace", gpu_count=0), place.platform).job
    client.wait(job.id, timeout=300)
    assert client.get_job_logs(job.id) == "default_int_handler\n"
